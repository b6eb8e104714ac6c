# How a folder of ours becomes a library and a test.

# ccache and mold where they are found; neither changes what is built.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # CCACHE_BASEDIR makes paths relative, so that a second clone hits the first one's cache; the
  # sloppiness is what ccache's manual asks for with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

# The programs carry no path of the machine that built them: `tern` tells `tern-train` where LibTorch
# is when it starts it. Only tests, which ctest starts directly, get a build RPATH (tern_test).
set(CMAKE_SKIP_BUILD_RPATH ON)

add_library(tern_flags INTERFACE)
target_include_directories(tern_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
# -Wno-restrict: gcc 12 warns at -O2 of std::string's own copies (gcc bug 105651).
target_compile_options(tern_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow -Werror
  -Wno-missing-field-initializers -Wno-restrict -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(TERN_SANITIZE)
  # The checks left out cost a third of the time to compile, and what they find ends the process
  # anyway.
  target_compile_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize=null,alignment,vptr,object-size -fno-sanitize-recover=all)
  target_link_options(tern_flags INTERFACE -fsanitize=${TERN_SANITIZE})
endif()

# clang 19 warns of more than gcc 12, which is the compiler that the warnings are for.
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  target_compile_options(tern_flags INTERFACE -Wno-error)
endif()
if(TERN_FUZZ)
  # All of our code is watched; only the fuzzers themselves have libFuzzer's main().
  target_compile_options(tern_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_include_directories(tern_flags INTERFACE ${CMAKE_SOURCE_DIR})
endif()

# tern_library(storage SOURCES a.cc b.cc LINKS tern_core)
function(tern_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(tern_${folder} STATIC ${ARG_SOURCES})
  target_link_libraries(tern_${folder} PUBLIC tern_flags ${ARG_LINKS})
endfunction()

# tern_test(storage SOURCES a_test.cc LINKS tern_storage [LABEL unit] [SERIAL])
# Each TEST is a ctest of its own, named folder.Suite.Name. LABEL is its tier: unit, e2e, slow or gpu.
# SERIAL: no other test runs meanwhile, for tests of what a run says about its own speed.
# A test that has a main() of its own wins over gtest_main, which is a static library.
function(tern_test folder)
  if(NOT TERN_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "SERIAL" "LABEL" "SOURCES;LINKS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  add_executable(${folder}_test ${ARG_SOURCES})
  target_link_libraries(${folder}_test PRIVATE tern_flags ${ARG_LINKS}
    GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${folder}_test PROPERTIES SKIP_BUILD_RPATH OFF)
  # Listing the tests starts the program; a machine busy with two jobs can take longer than 5 s.
  gtest_discover_tests(${folder}_test TEST_PREFIX ${folder}. DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 120 PROPERTIES LABELS ${ARG_LABEL} RUN_SERIAL ${ARG_SERIAL})
endfunction()

# tern_uses_torch(tern_model) lets a target's own files include LibTorch's headers and links it to
# LibTorch. They share one precompiled <torch/torch.h> (30 s, 740 MB), which takes such a file from
# 23 s to 10 s; it belongs to the first target that asks. All must be compiled with the same flags.
function(tern_uses_torch target)
  target_link_libraries(${target} PRIVATE LibTorch::torch)
  # ccache needs gcc to name the precompiled header in the preprocessed text.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  get_property(owner GLOBAL PROPERTY tern_torch_headers)
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE <torch/torch.h>)
    set_property(GLOBAL PROPERTY tern_torch_headers ${target})
  endif()
endfunction()
