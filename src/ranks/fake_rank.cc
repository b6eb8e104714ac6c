// A rank without LibTorch, for the supervisor's tests: its steps are barriers on the keys, and its
// state is their number. Each step adds a line to FOLDER/ID: generation, rank, world, step, pid.
//
//   fake_rank FOLDER [--steps N] [--crash ID] [--exit ID CODE] [--late ID]
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/stdio.h"
#include "ranks/process_title.h"
#include "ranks/rank_link.h"

namespace tern {
namespace {

constexpr Milliseconds kStepTime{2};
constexpr Milliseconds kBarrierLimit{60'000};

struct Wishes {
  std::string folder;
  int64_t steps = -1;
  int64_t crash = -1;  // the id that dies at its start
  int64_t exit = -1;   // the id that ends at its start...
  int exit_code = 0;   // ...with this
  int64_t saves = -1;  // the id that is done last: when its mark is there
  int64_t late = -1;   // the id that enters when those before it have left, which end after it
};

Wishes parse(const std::vector<std::string>& words) {
  Wishes wishes{.folder = words.at(0)};
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    if (words[i] == "--steps") wishes.steps = std::stoll(words[i + 1]);
    if (words[i] == "--crash") wishes.crash = std::stoll(words[i + 1]);
    if (words[i] == "--saves") wishes.saves = std::stoll(words[i + 1]);
    if (words[i] == "--late") wishes.late = std::stoll(words[i + 1]);
    if (words[i] == "--exit" && i + 2 < words.size()) {
      wishes.exit = std::stoll(words[i + 1]);
      wishes.exit_code = std::stoi(words[i + 2]);
    }
  }
  return wishes;
}

std::string mark(const Wishes& wishes, std::string_view what, int64_t id) {
  return fmt::format("{}/{}{}", wishes.folder, what, id);
}

void put_mark(const Wishes& wishes, std::string_view what, int64_t id) {
  std::ofstream(mark(wishes, what, id)) << "";
}

void wait_for_mark(const Wishes& wishes, std::string_view what, int64_t id, Clock& clock) {
  while (access(mark(wishes, what, id).c_str(), F_OK) != 0) clock.wait_for(kStepTime, {});
}

class FakeRank {
 public:
  FakeRank(Wishes wishes, RankSetup setup, RankLink& link, NoticeBoard& board, Clock& clock)
      : wishes_(std::move(wishes)), id_(setup.id), link_(link), board_(board), clock_(clock) {}

  Result<int> run(ProcessTitle& title) {
    while (true) {
      const auto joined = link_.join({.step = step_, .agreement = "a"}, board_.stop_token());
      if (!joined && board_.notice()) return leave();
      if (!joined) return joined.error();
      if (joined->source >= 0) step_ = joined->step;
      if (step_ < 0) step_ = 0;
      title.set(fmt::format("tern-train: fake rank {}", joined->rank));
      bool goes_on = true;
      while (goes_on) {
        if (wishes_.steps >= 0 && step_ >= wishes_.steps) {
          if (wishes_.saves == id_) wait_for_mark(wishes_, "saved", id_, clock_);
          RETURN_IF_ERROR(link_.leave("done"));
          if (wishes_.late >= 0) wait_for_the_late_one();
          return 0;
        }
        ASSIGN_OR_RETURN(goes_on, do_step(*joined));
        if (board_.notice()) return leave();
      }
    }
  }

 private:
  // False if the generation is over.
  Result<bool> do_step(const RankGroup& group) {
    const std::string prefix = fmt::format("gen{}/{}/", group.generation, step_);
    clock_.wait_for(kStepTime, link_.generation_over());
    if (link_.change_is_wanted()) {
      if (!link_.add(prefix + "change", 1)) return gone();
    }
    const Result<int64_t> here = link_.add(prefix + "here", 1);
    if (!here) return gone();
    if (*here == group.world && !link_.set(prefix + "all", "")) return gone();
    if (!link_.get(prefix + "all", kBarrierLimit)) return gone();
    ++step_;
    link_.tell({.step = step_, .rate = 1, .waits_for = ""});
    std::ofstream(fmt::format("{}/{}", wishes_.folder, id_), std::ios::app) << fmt::format(
        "{} {} {} {} {}\n", group.generation, group.rank, group.world, step_, getpid());
    const Result<int64_t> change = link_.add(prefix + "change", 0);
    return change && *change == 0;
  }

  void wait_for_the_late_one() {
    put_mark(wishes_, "left", id_);
    wait_for_mark(wishes_, "entered", wishes_.late, clock_);
    constexpr Milliseconds kItsJoin{50};  // is on its way
    clock_.wait_for(kItsJoin, {});
  }

  // The generation is over, or the supervisor is gone, which join() then says.
  static Result<bool> gone() { return false; }

  Result<int> leave() {
    const bool is_preempt = board_.notice()->kind == NoticeKind::preempt;
    RETURN_IF_ERROR(link_.leave("notice"));
    return is_preempt ? 75 : 10;
  }

  const Wishes wishes_;
  const int64_t id_;
  RankLink& link_;
  NoticeBoard& board_;
  Clock& clock_;
  int64_t step_ = -1;
};

Result<int> run(int argc, char** argv, char** environment) {
  const VariableReader variable = [=](const std::string& name) -> std::optional<std::string> {
    for (char** entry = environment; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (text.starts_with(name + "=")) return text.substr(name.size() + 1);
    }
    return std::nullopt;
  };
  const Wishes wishes = parse({argv + 1, argv + argc});
  SystemClock clock;
  NoticeBoard board;
  ASSIGN_OR_RETURN(RankSetup setup, read_rank_setup(variable));
  setup.board = &board;
  setup.clock = &clock;
  write_stderr(fmt::format("rank {} is here\n", setup.id));
  fmt::print("rank {} prints\n", setup.id);
  if (wishes.crash == setup.id) abort();
  if (wishes.exit == setup.id) return wishes.exit_code;
  for (int64_t id = 0; wishes.late == setup.id && id < setup.id; ++id) {
    wait_for_mark(wishes, "left", id, clock);
  }
  ASSIGN_OR_RETURN(const auto link, RankLink::open(setup));
  if (wishes.late == setup.id) put_mark(wishes, "entered", setup.id);
  ProcessTitle title(argc, argv);
  return FakeRank(wishes, setup, *link, board, clock).run(title);
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv, char** environment) {
  const tern::Result<int> code = tern::run(argc, argv, environment);
  if (code) return *code;
  tern::write_stderr(code.error().message + "\n");
  return 1;
}
