#include "storage/holder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

namespace tern {
namespace {

Holder me() {
  Result<Holder> holder = this_process();
  EXPECT_TRUE(holder.has_value());
  return holder.value_or(Holder{});
}

// A process of ours that does nothing until it is killed, described as it would describe itself.
class Child {
 public:
  Child() {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const Result<Holder> holder = this_process();
      const int64_t start = holder ? holder->pid_start : 0;
      (void)!write(ready[1], &start, sizeof start);
      for (;;) pause();
    }
    holder_ = me();
    holder_.pid = pid_;
    EXPECT_EQ(read(ready[0], &holder_.pid_start, sizeof holder_.pid_start),
              static_cast<ssize_t>(sizeof holder_.pid_start));
    close(ready[0]);
    close(ready[1]);
  }
  ~Child() {
    if (pid_ > 0) kill_and_reap();
  }
  void kill_but_do_not_reap() const {
    kill(pid_, SIGKILL);
    siginfo_t info;
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT), 0);
  }
  void kill_and_reap() {
    kill(pid_, SIGKILL);
    EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_);
    pid_ = -1;
  }
  const Holder& holder() const { return holder_; }

 private:
  pid_t pid_ = -1;
  Holder holder_;
};

TEST(Holder, NamesThisProcess) {
  const Holder holder = me();
  EXPECT_EQ(holder.pid, getpid());
  EXPECT_EQ(holder.token.size(), 32u);
  EXPECT_GT(holder.pid_start, 0);
  EXPECT_FALSE(holder.boot_id.empty());
  EXPECT_FALSE(holder.pid_namespace.empty());
  EXPECT_EQ(holder.to_string(), "pid " + std::to_string(getpid()) + " on machine " + holder.host);
}

TEST(Holder, EveryTokenIsNew) {
  std::set<std::string> tokens;
  for (int i = 0; i < 100; ++i) tokens.insert(me().token);
  EXPECT_EQ(tokens.size(), 100u);
}

TEST(Holder, LivingProcessIsAliveAndAKilledOneDead) {
  Child child;
  EXPECT_EQ(liveness(child.holder(), me()), Liveness::alive);
  child.kill_and_reap();
  EXPECT_EQ(liveness(child.holder(), me()), Liveness::dead);
}

TEST(Holder, ZombieIsDead) {
  Child child;
  child.kill_but_do_not_reap();
  EXPECT_EQ(liveness(child.holder(), me()), Liveness::dead);
}

TEST(Holder, ReusedPidIsDead) {
  Holder earlier = me();
  earlier.pid_start -= 1;
  EXPECT_EQ(liveness(earlier, me()), Liveness::dead);
}

TEST(Holder, OtherBootOrContainerOrUnknownOneIsUnknown) {
  for (std::string Holder::* field : {&Holder::boot_id, &Holder::pid_namespace}) {
    Holder other = me();
    other.pid_start -= 1;
    ASSERT_EQ(liveness(other, me()), Liveness::dead);
    other.*field = "another";
    EXPECT_EQ(liveness(other, me()), Liveness::unknown);
    Holder nameless = me();
    nameless.*field = "";
    Holder also_nameless = me();
    also_nameless.*field = "";
    EXPECT_EQ(liveness(nameless, also_nameless), Liveness::unknown);
  }
  Holder no_pid = me();
  no_pid.pid = 0;
  EXPECT_EQ(liveness(no_pid, me()), Liveness::unknown);
}

TEST(Holder, OwnTokenIsAlive) {
  Holder holder = me();
  holder.boot_id = "";
  EXPECT_EQ(liveness(holder, holder), Liveness::alive);
}

}  // namespace
}  // namespace tern
