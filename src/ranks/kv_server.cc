#include "ranks/kv_server.h"

#include <utility>

#include "core/token.h"

namespace tern {
namespace {

RankHub::Setup hub_setup(const KvServer::Setup& setup) {
  return {.secret = setup.secret,
          .rules = setup.rules,
          .limits = setup.limits,
          .nonce = [] { return random_bytes(kSecretBytes); },
          .on_event = setup.on_event,
          .machines = setup.machines,
          .on_peer = setup.on_peer};
}

}  // namespace

Result<std::unique_ptr<KvServer>> KvServer::start(const Setup& setup) {
  TERN_CHECK(setup.secret.size() == kSecretBytes);
  std::unique_ptr<KvServer> server(new KvServer(hub_setup(setup)));
  ASSIGN_OR_RETURN(server->server_, SocketServer::start({.address = setup.address,
                                                         .port = setup.port,
                                                         .handler = &server->hub_,
                                                         .clock = setup.clock}));
  return server;
}

void KvServer::order(Order order) {
  server_->order([this, order = std::move(order)](Nanoseconds now) { order(hub_, now); });
}

void KvServer::post(Notice notice) {
  order([told = PeerNotice{.machine = -1, .notice = std::move(notice)}](RankHub& hub, Nanoseconds) {
    hub.post(told);
  });
}

}  // namespace tern
