# What an installed Tern consists of and where its parts lie, from the prefix on. scripts/lay-out runs
# this, for `make install` and for `make dist`; both put the same tree somewhere.
#
#   bin/tern                   libexec/tern-train         lib/libtern_cuda.so
#   share/tern/recipes         share/doc/tern

# The programs find what a bundle carries beside them, wherever it is unpacked. They are linked so
# from the start, so that the installed bytes are those that the tests ran.
foreach(program tern tern-train)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES
      INSTALL_RPATH "$ORIGIN/../lib" BUILD_WITH_INSTALL_RPATH ON)
  endif()
endforeach()
# RPATH, not RUNPATH: it also holds for what libcurl loads in turn. Not for tern-train, where the
# library path must be able to name LibTorch's.
target_link_options(tern PRIVATE -Wl,--disable-new-dtags)

install(TARGETS tern RUNTIME DESTINATION bin)
if(TARGET tern-train)
  install(TARGETS tern-train RUNTIME DESTINATION libexec)
endif()

# Our kernels, loaded by dlopen on machines with a GPU; built where nvcc was found.
set(cuda_library ${CMAKE_BINARY_DIR}/lib/libtern_cuda.so)
install(PROGRAMS ${cuda_library} DESTINATION lib OPTIONAL)

install(DIRECTORY recipes/ DESTINATION share/tern/recipes FILES_MATCHING PATTERN "*.toml")

# As in the source tree, so that the links between the pages hold.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION share/doc/tern)
# By name, since an example that was run leaves its runs beside it.
install(DIRECTORY docs examples DESTINATION share/doc/tern USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN "*.md" PATTERN "*.sh" PATTERN "*.py" PATTERN "*.toml"
  PATTERN runs EXCLUDE)
