// Looks into the built libtern_cuda.so, on a machine without a GPU: what it exports and needs,
// which GPUs it holds machine code for, and what its functions say to nonsense.
#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/kernels.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSubsetOf;
using testing::IsSupersetOf;

// Parts of a 64-bit ELF file. Reading past its end is a failed test, not a crash.
class ElfFile {
 public:
  explicit ElfFile(std::string_view bytes) : bytes_(bytes) {
    const auto header = at<Elf64_Ehdr>(0);
    for (size_t i = 0; i < header.e_shnum; ++i) {
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    }
    if (header.e_shstrndx < sections_.size()) names_ = sections_[header.e_shstrndx];
  }

  template <typename T>
  T at(size_t offset) const {
    T value{};
    if (offset + sizeof(T) > bytes_.size()) {
      ADD_FAILURE() << "the file ends before " << offset;
      return value;
    }
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::string text(const Elf64_Shdr& strings, size_t offset) const {
    const std::string_view all = section_bytes(strings);
    return offset < all.size() ? std::string(all.substr(offset).data()) : "";
  }

  std::string_view section_bytes(const Elf64_Shdr& section) const {
    if (section.sh_offset + section.sh_size > bytes_.size()) return {};
    return bytes_.substr(section.sh_offset, section.sh_size);
  }

  Elf64_Shdr section(const std::string& name) const {
    for (const Elf64_Shdr& section : sections_) {
      if (text(names_, section.sh_name) == name) return section;
    }
    ADD_FAILURE() << "no section " << name;
    return {};
  }

  // The strings that the dynamic section's entries of this tag name.
  std::vector<std::string> dynamic(int64_t tag) const {
    const Elf64_Shdr table = section(".dynamic");
    std::vector<std::string> found;
    for (size_t i = 0; i < table.sh_size; i += sizeof(Elf64_Dyn)) {
      const auto entry = at<Elf64_Dyn>(table.sh_offset + i);
      if (entry.d_tag == tag) found.push_back(text(section(".dynstr"), entry.d_un.d_val));
    }
    return found;
  }

  std::vector<std::string> exports() const {
    const Elf64_Shdr table = section(".dynsym");
    std::vector<std::string> found;
    for (size_t i = 0; i < table.sh_size; i += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(table.sh_offset + i);
      if (symbol.st_shndx != SHN_UNDEF) found.push_back(text(section(".dynstr"), symbol.st_name));
    }
    return found;
  }

 private:
  std::string_view bytes_;
  std::vector<Elf64_Shdr> sections_;
  Elf64_Shdr names_{};
};

// The section's layout is not documented, but is the same since CUDA 4: a header, then entries of a
// header and a program, which --no-compress leaves readable. Machine code is itself an ELF file.
struct FatHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t entries_bytes;
};
struct FatEntry {
  uint16_t kind;  // 1: PTX, 2: machine code
  uint16_t version;
  uint32_t header_bytes;
  uint64_t program_bytes;
  uint32_t unused[3];
  uint32_t capability;  // 90 for 9.0
};
constexpr uint16_t kMachineCode = 2;
constexpr uint16_t kElfMachineCuda = 190;

struct Programs {
  std::vector<uint32_t> machine_code;  // capabilities
  std::vector<uint32_t> ptx;
};

// Adds one entry, after a look at whether it is what it says.
void add_program(const FatEntry& entry, std::string_view program, Programs& programs) {
  for (const char* number : {"F32ELi4", "F16ELi4", "Bf16ELi4", "F32ELi1", "F16ELi1", "Bf16ELi1"}) {
    EXPECT_NE(
        program.find("prepare_kernelINS_" + std::to_string(number[0] == 'B' ? 4 : 3) + number),
        std::string_view::npos)
        << number << " for " << entry.capability;
  }
  if (entry.kind != kMachineCode) {
    programs.ptx.push_back(entry.capability);
    return;
  }
  const auto header = ElfFile(program).at<Elf64_Ehdr>(0);
  EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
  EXPECT_EQ(header.e_machine, kElfMachineCuda);
  EXPECT_EQ((header.e_flags >> 8) & 255U, entry.capability);
  programs.machine_code.push_back(entry.capability);
}

Programs programs_in(const ElfFile& library) {
  Programs programs;
  const Elf64_Shdr section = library.section(".nv_fatbin");
  const auto header = library.at<FatHeader>(section.sh_offset);
  EXPECT_EQ(header.magic, 0xBA55ED50U);
  const size_t begin = section.sh_offset + header.header_bytes;
  const size_t end = begin + header.entries_bytes;
  EXPECT_LE(end, section.sh_offset + section.sh_size);
  const std::string_view bytes = library.section_bytes(section);
  for (size_t i = begin; i < end;) {
    const auto entry = library.at<FatEntry>(i);
    if (entry.header_bytes < sizeof(FatEntry)) {
      ADD_FAILURE() << "an entry at " << i << " without a header";
      break;
    }
    const size_t from = i + entry.header_bytes - section.sh_offset;
    if (from + entry.program_bytes > bytes.size()) {
      ADD_FAILURE() << "an entry at " << i << " longer than the section";
      break;
    }
    add_program(entry, bytes.substr(from, entry.program_bytes), programs);
    i += entry.header_bytes + entry.program_bytes;
  }
  return programs;
}

class CudaLibrary : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(TERN_KERNELS).empty()) {
      GTEST_SKIP() << "libtern_cuda.so is not part of this build: no nvcc (scripts/fetch-nvcc)";
    }
    std::ifstream stream(TERN_KERNELS, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    ASSERT_GT(bytes_.size(), sizeof(Elf64_Ehdr)) << TERN_KERNELS;
  }

  // The library with the toolkit's CUDA runtime, as LibTorch's process has one; null where failed.
  std::unique_ptr<CudaKernels> open() {
    if (dlopen(TERN_CUDART, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      ADD_FAILURE() << dlerror();
      return nullptr;
    }
    auto kernels = CudaKernels::open(TERN_KERNELS);
    if (kernels.has_value()) return std::move(*kernels);
    ADD_FAILURE() << kernels.error().message;
    return nullptr;
  }

  std::string bytes_;
};

TEST_F(CudaLibrary, IsSmallAndNeedsOnlyTheCudaRuntime) {
  const ElfFile library(bytes_);
  EXPECT_LT(bytes_.size(), 2U << 20);
  EXPECT_THAT(library.dynamic(DT_SONAME), ElementsAre("libtern_cuda.so"));
  const std::vector<std::string> needed = library.dynamic(DT_NEEDED);
  EXPECT_THAT(needed, IsSupersetOf({"libcudart.so.13"}));
  EXPECT_THAT(needed, IsSubsetOf({"libcudart.so.13", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6",
                                  "libm.so.6"}));
  EXPECT_THAT(library.dynamic(DT_RPATH), ElementsAre());
  EXPECT_THAT(library.dynamic(DT_RUNPATH), ElementsAre());
}

TEST_F(CudaLibrary, ExportsTheInterfaceAndNothingElse) {
  EXPECT_THAT(ElfFile(bytes_).exports(),
              testing::UnorderedElementsAre("tern_cuda_interface", "tern_cuda_prepare",
                                            "tern_cuda_half_type", "tern_cuda_error"));
}

TEST_F(CudaLibrary, HoldsMachineCodeForEachGpuAndPtxForNewerOnes) {
  const Programs programs = programs_in(ElfFile(bytes_));
  EXPECT_THAT(programs.machine_code, ElementsAre(75, 80, 86, 89, 90, 100, 120));
  EXPECT_THAT(programs.ptx, ElementsAre(120));
}

TEST_F(CudaLibrary, NonsenseIsRefusedBeforeAnyWork) {
  const auto kernels = open();
  ASSERT_NE(kernels, nullptr);
  alignas(16) std::array<uint8_t, 64> memory{};
  auto* numbers = reinterpret_cast<float*>(memory.data());
  const TernCudaPrepare good = {.images = memory.data(),
                                .crops = nullptr,
                                .mean = numbers,
                                .stddev = numbers,
                                .out = numbers,
                                .count = 1,
                                .channels = 1,
                                .height = 1,
                                .width = 1,
                                .type = TERN_CUDA_F32};
  std::map<std::string, TernCudaPrepare> bad;
  (bad["count"] = good).count = -1;
  (bad["channels"] = good).channels = 0;
  (bad["height"] = good).height = 0;
  (bad["width"] = good).width = -3;
  (bad["type"] = good).type = 3;
  (bad["negative type"] = good).type = -1;
  (bad["layout"] = good).layout = 2;
  (bad["images"] = good).images = nullptr;
  (bad["mean"] = good).mean = nullptr;
  (bad["stddev"] = good).stddev = nullptr;
  (bad["out"] = good).out = nullptr;
  (bad["unaligned out"] = good).out = memory.data() + 2;
  (bad["unaligned crops"] = good).crops = reinterpret_cast<TernCudaCrop*>(memory.data() + 1);
  (bad["bytes past 2^63"] = good).count = INT64_MAX / 4 + 1;
  bad["plane past 2^31"] = good;
  bad["plane past 2^31"].height = bad["plane past 2^31"].width = 1 << 16;
  for (const auto& [what, prepare] : bad) {
    const Status status = kernels->prepare(prepare, nullptr);
    ASSERT_FALSE(status.has_value()) << what;
    EXPECT_THAT(status.error().message, HasSubstr("(CUDA error 1)")) << what;
  }
  TernCudaPrepare empty = good;
  empty.count = 0;
  empty.images = nullptr;
  EXPECT_TRUE(kernels->prepare(empty, nullptr).has_value());
}

TEST_F(CudaLibrary, AskingForAGpuThatIsNotThereIsAnError) {
  const auto kernels = open();
  ASSERT_NE(kernels, nullptr);
  const Result<TernCudaType> type = kernels->half_type(1000);
  ASSERT_FALSE(type.has_value());
  EXPECT_THAT(type.error().message, HasSubstr("GPU 1000"));
}

}  // namespace
}  // namespace tern
