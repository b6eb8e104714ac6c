# CUDA's compiler, nvcc 13, which needs neither a GPU nor a driver. CMake's own CUDA language wants a
# whole toolkit; we compile one file.
#
# -DTERN_NVCC=DIR names the toolkit's folder (with bin/nvcc); otherwise scripts/fetch-nvcc --find
# looks. Sets Nvcc_PROGRAM and Nvcc_CUDART, the file of libcudart.so.13.
set(TERN_NVCC "" CACHE PATH "A CUDA toolkit 13: the folder with bin/nvcc; empty looks for it.")
set(toolkit "${TERN_NVCC}")
if(NOT EXISTS "${toolkit}/bin/nvcc")
  execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/fetch-nvcc --find
    OUTPUT_VARIABLE toolkit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(Nvcc_PROGRAM "")
set(Nvcc_CUDART "")
if(EXISTS "${toolkit}/bin/nvcc")
  set(Nvcc_PROGRAM ${toolkit}/bin/nvcc)
  file(GLOB Nvcc_CUDART ${toolkit}/lib*/libcudart.so.13)
  list(SUBLIST Nvcc_CUDART 0 1 Nvcc_CUDART)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Nvcc REQUIRED_VARS Nvcc_PROGRAM Nvcc_CUDART
  REASON_FAILURE_MESSAGE "Run scripts/fetch-nvcc, or set TERN_NVCC to a CUDA toolkit 13.")
