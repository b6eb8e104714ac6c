// `tern program-rank`: one rank of `tern program`, which starts it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

#include "cli/mesh_place.h"
#include "cli/parse_or_help.h"
#include "cli/program_commands.h"
#include "core/hash.h"
#include "core/log.h"
#include "preempt/signal_watcher.h"
#include "program/program_rank.h"
#include "program/run_keeper.h"
#include "ranks/rank_link.h"
#include "train/exit_codes.h"
#include "train/run_place.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHelp = "`tern program-rank` is started by `tern program`.\n";

struct Request {
  std::string work;
  std::string run;
  bool has_begun = false;
  bool leaves_port_free = false;
  Arguments words;
};

Result<int> be_rank(const Surroundings& surroundings, const Request& request) {
  SystemClock clock;
  Log log(clock, Level::info);
  NoticeBoard board;
  ASSIGN_OR_RETURN(const auto signals,
                   SignalWatcher::start(board, clock, [] { _exit(kExitInterruptedTwice); }));
  ASSIGN_OR_RETURN(RankSetup setup, read_rank_setup(surroundings.cloud.variable));
  setup.board = &board;
  setup.clock = &clock;
  ASSIGN_OR_RETURN(const std::unique_ptr<RankLink> link, RankLink::open(setup));
  const fs::path work = request.work;
  const ProgramFolders folders{
      .checkpoints = work / "checkpoints",
      .notice_file = work / fmt::format("notice-{}.json", setup.id),
      .run = request.run,
      .run_id = to_hex(sha256(request.run.empty() ? request.work : request.run)).substr(0, 16)};
  std::error_code error;
  fs::create_directories(folders.checkpoints, error);
  if (error) {
    return fail(Code::unavailable,
                fmt::format("cannot make {}: {}", folders.checkpoints.string(), error.message()));
  }
  CloudDoor door(surroundings.cloud, clock);
  std::unique_ptr<ObjectStore> run;
  std::unique_ptr<AttemptWatcher> watcher = std::make_unique<AttemptWatcher>();
  if (!request.run.empty()) {
    ASSIGN_OR_RETURN(const StoreAddress place, parse_run_place(request.run));
    ASSIGN_OR_RETURN(run, door.open(place));
    const std::string peers = surroundings.cloud.variable(kPeersVariable).value_or("");
    ASSIGN_OR_RETURN(watcher, RunKeeper::create({.run = run.get(),
                                                 .folders = folders,
                                                 .work = work,
                                                 .words = request.words,
                                                 .version = TERN_VERSION,
                                                 .is_again = request.has_begun,
                                                 .has_peers = peers.find(' ') != std::string::npos,
                                                 .link = link.get(),
                                                 .clock = &clock,
                                                 .log = &log}));
  }
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  ProgramRank rank({.words = request.words,
                    .environment = std::move(environment),
                    .folders = folders,
                    .leaves_port_free = request.leaves_port_free,
                    .machine = setup.machine,
                    .link = link.get(),
                    .watcher = watcher.get(),
                    .board = &board,
                    .clock = &clock,
                    .log = &log});
  const Result<int> ended = rank.run();
  if (!ended) return ended;
  if (rank.has_lost_save()) std::ofstream(work / kNotKeptFile) << "";
  // At once: what was to be kept is, and a copy that is under way is made again by the next rank,
  // for which the group waits.
  _exit(*ended);
}

}  // namespace

Result<int> program_rank_command(const Surroundings& surroundings, const Arguments& arguments) {
  Request request;
  CLI::App app;
  app.add_option("--work", request.work)->required();
  app.add_option("--run", request.run);
  app.add_flag("--begun", request.has_begun);
  app.add_flag("--leave-port-free", request.leaves_port_free);
  const auto dashes = std::ranges::find(arguments, "--");
  ASSIGN_OR_RETURN(const bool is_help,
                   parse_or_help(app, {arguments.begin(), dashes}, "tern program-rank", kHelp));
  if (is_help) return kExitDone;
  request.words.assign(dashes == arguments.end() ? dashes : dashes + 1, arguments.end());
  RETURN_IF_ERROR(SignalWatcher::block_signals());
  return be_rank(surroundings, request);
}

}  // namespace tern
