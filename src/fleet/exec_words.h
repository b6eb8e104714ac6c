// What both sides of an agent's start need to become another program.
#pragma once

#include <csignal>
#include <map>
#include <string>
#include <vector>

extern char** environ;  // POSIX declares it nowhere

namespace tern {

// For exec(). REQUIRES: the texts outlive it.
inline std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Ours, with `more` in place of variables of the same names.
inline std::vector<std::string> environment_with(const std::map<std::string, std::string>& more) {
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (!more.contains(variable.substr(0, variable.find('=')))) variables.push_back(variable);
  }
  for (const auto& [name, value] : more) variables.push_back(name + "=" + value);
  return variables;
}

// In the child, between fork() and exec().
inline void take_default_signals() {
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGPIPE, SIGCHLD}) {
    signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace tern
