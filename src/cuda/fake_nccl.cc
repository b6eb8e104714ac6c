// A libnccl.so.2 for nccl_test.cc: a group of one, whose "GPU" is this process's memory. A count of
// 13 fails as a lost peer does.
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "cuda/nccl.h"

struct tern::NcclCommTag {
  int world;
};

namespace {

using tern::NcclComm;
using tern::NcclCommTag;
using tern::NcclId;

constexpr size_t kUnlucky = 13;
int living = 0;
int error_seen = 0;

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22706;
  return 0;
}
int ncclGetUniqueId(NcclId* id) {
  std::memset(id->bytes, 'x', sizeof(id->bytes));
  return 0;
}
int ncclCommInitRank(NcclComm* comm, int world, NcclId id, int rank) {
  if (id.bytes[0] != 'x' || rank >= world) return 5;
  *comm = new NcclCommTag{world};
  ++living;
  return 0;
}
int ncclAllReduce(const void*, void*, size_t count, int, int, NcclComm, void*) {
  if (count == kUnlucky) error_seen = 6;
  return 0;
}
int ncclBroadcast(const void*, void*, size_t count, int, int, NcclComm, void*) {
  return count == kUnlucky ? 2 : 0;
}
int ncclCommGetAsyncError(NcclComm, int* error) {
  *error = error_seen;
  return 0;
}
int ncclCommAbort(NcclComm comm) {
  delete comm;
  --living;
  error_seen = 0;
  return 0;
}
int ncclCommDestroy(NcclComm comm) { return ncclCommAbort(comm); }
const char* ncclGetErrorString(int error) {
  return error == 6 ? "remote process exited" : "something went wrong";
}
// Not NCCL's: for the test.
int fake_nccl_living() { return living; }
}
