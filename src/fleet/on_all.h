// One question to many machines at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include "core/result.h"

namespace tern {

// Calls ask(0) to ask(count - 1), at most 32 at a time, each on a thread; returns the answers in
// order when all are there. `ask` returns a Result and must be safe from several threads.
template <typename Ask>
auto on_all(size_t count, Ask ask) -> std::vector<decltype(ask(size_t{0}))> {
  constexpr size_t kThreadsMax = 32;
  std::vector<std::optional<decltype(ask(size_t{0}))>> answers(count);
  std::atomic<size_t> next{0};
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < std::min(count, kThreadsMax); ++i) {
      threads.emplace_back([&] {
        for (size_t k = next++; k < count; k = next++) answers[k].emplace(ask(k));
      });
    }
  }
  std::vector<decltype(ask(size_t{0}))> all;
  for (auto& answer : answers) all.push_back(std::move(*answer));
  return all;
}

// Every error of them, a line each, with the first one's code; nothing if there is none.
template <typename T>
Status all_good(const std::vector<Result<T>>& answers) {
  std::optional<Error> error;
  for (const Result<T>& answer : answers) {
    if (answer.has_value()) continue;
    if (error) {
      error->message += "\n" + answer.error().message;
    } else {
      error = answer.error();
    }
  }
  if (error) return *error;
  return {};
}

}  // namespace tern
