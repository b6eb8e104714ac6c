# LibTorch as the wheel ships it. Its own TorchConfig.cmake insists on a CUDA toolkit, so the two
# libraries we link (torch_cpu, c10) are imported here.
#
# -DTERN_LIBTORCH=DIR names the folder with include/ and lib/; otherwise scripts/find-libtorch looks.
# Sets LibTorch_VERSION and LibTorch_LIB_DIR.
set(TERN_LIBTORCH "" CACHE PATH "LibTorch 2.11.0: the folder with include/ and lib/; empty looks for it.")
set(libtorch "${TERN_LIBTORCH}")
if(NOT EXISTS "${libtorch}/lib/libtorch_cpu.so")
  # Asked at every configure and not remembered: `tern` asks in the same order whenever it starts.
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/find-libtorch
    OUTPUT_VARIABLE libtorch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

if(EXISTS "${libtorch}/version.py")
  file(STRINGS ${libtorch}/version.py version_line REGEX "^__version__ = ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LibTorch_VERSION "${version_line}")
endif()
if(EXISTS "${libtorch}/lib/libtorch_cpu.so")
  set(LibTorch_LIB_DIR ${libtorch}/lib)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_LIB_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Run scripts/fetch-libtorch, or set TERN_LIBTORCH to a LibTorch 2.11.0.")

if(LibTorch_FOUND AND NOT TARGET LibTorch::torch)
  add_library(LibTorch::torch INTERFACE IMPORTED)
  # -idirafter: the wheel's include folder also carries its own fmt and protobuf, which must not
  # shadow Debian's.
  target_compile_options(LibTorch::torch INTERFACE
    "SHELL:-idirafter ${libtorch}/include"
    "SHELL:-idirafter ${libtorch}/include/torch/csrc/api/include"
    -ffile-prefix-map=${libtorch}/=libtorch/) # its checks name their file; the folder is this machine's
  target_link_libraries(LibTorch::torch INTERFACE
    ${LibTorch_LIB_DIR}/libtorch_cpu.so ${LibTorch_LIB_DIR}/libc10.so)
  # libtorch_cpu's own dependencies (CUDA runtime, CUPTI) are found by its RPATH when it loads.
  target_link_options(LibTorch::torch INTERFACE -Wl,--unresolved-symbols=ignore-in-shared-libs)
endif()
