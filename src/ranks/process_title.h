// What `ps` shows of this process.
#pragma once

#include <cstddef>
#include <string_view>

namespace tern {

// Writes over the arguments that the process was started with, in place: after set() they can no
// longer be read from argv. Made by main(), of one thread. A title that is longer than all the
// arguments were is cut.
class ProcessTitle {
 public:
  ProcessTitle(int argc, char** argv);

  // "tern-train: runs/demo rank 1"
  void set(std::string_view title);

 private:
  char* begin_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tern
