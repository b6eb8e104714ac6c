#include "python_torch_half.h"

namespace tern {

void stand_in_for_cuda(const std::filesystem::path& site, const std::filesystem::path& folder) {
  std::filesystem::create_directory(folder);
  for (const char* name :
       {"libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcufft.so.12", "libcufile.so.0",
        "libcurand.so.10", "libcusparse.so.12", "libcusparseLt.so.0", "libnccl.so.2",
        "libnvshmem_host.so.3"}) {
    std::filesystem::create_symlink(site / "torch" / "lib" / "libtorch_global_deps.so",
                                    folder / name);
  }
}

}  // namespace tern
