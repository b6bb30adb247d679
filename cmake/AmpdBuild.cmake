# Compilers, warnings, sanitizers, ccache and the linker, for every target of the tree.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(_launcher "${CMAKE_SOURCE_DIR}/cmake/ccache-launch" ${CCACHE_PROGRAM} ${CMAKE_SOURCE_DIR})
  set(CMAKE_C_COMPILER_LAUNCHER ${_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${_launcher})
endif()

find_program(LLD_PROGRAM ld.lld)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
add_link_options(-Wl,--as-needed)

# GCC collects its garbage more often than memory asks for; a compiler may have half a gigabyte of it here.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-expand=100 --param ggc-min-heapsize=524288>")
endif()

# What clang precompiles is then the same each time, and ccache finds what was compiled with it.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# For every source, whether what it links asks for it or not: precompiled headers want one set of flags.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-pthread>)

# A test's own code runs once and for a moment: the optimiser would take longer over it than it saves. GCC is no slower
# with -Og than with -O0, clang twice as slow.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(AMPD_TEST_OPTIONS -Og)
else()
  set(AMPD_TEST_OPTIONS -O0)
endif()

# Applied by ampd_library and ampd_test to our own sources only, never to generated code.
add_library(ampd_warnings INTERFACE)
# -Wno-restrict: GCC 12 reports overlaps inside std::string at -O2 that cannot happen (GCC bug 105329).
# -Wno-maybe-uninitialized: at -O2 it does not see that absl::StatusOr's status guards its value.
target_compile_options(ampd_warnings INTERFACE
  -Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-restrict -Wno-maybe-uninitialized)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(ampd_warnings INTERFACE -Wno-unknown-warning-option)
endif()
target_include_directories(ampd_warnings INTERFACE "${CMAKE_SOURCE_DIR}")

if(AMPD_SANITIZER STREQUAL "asan")
  # vptr checks need run-time type information of libraries that are not instrumented.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr,function -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  add_compile_definitions(AMPD_ASAN)
  add_compile_definitions(GRPC_ASAN_SUPPRESSED)
elseif(AMPD_SANITIZER STREQUAL "tsan")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -O1)
  # Protobuf's and absl's headers lay classes out in another way where this macro is set (protobuf's map fields gain
  # members), and their libraries were built without it. libstdc++ must know all the same: it is only headers there.
  add_compile_options(-U__SANITIZE_THREAD__ -D_GLIBCXX_TSAN=1)
  add_compile_definitions(AMPD_TSAN)
  add_link_options(-fsanitize=thread)
  add_compile_definitions(GRPC_TSAN_SUPPRESSED)
  # Every program carries it: it tells TSan what the locks of absl and the queues of gRPC order, which are not instrumented.
  add_library(ampd_tsan OBJECT
    "${CMAKE_SOURCE_DIR}/tests/sanitizer/absl_tsan.cc" "${CMAKE_SOURCE_DIR}/tests/sanitizer/grpc_tsan.cc")
  target_link_libraries(ampd_tsan PUBLIC absl::synchronization absl::time gRPC::grpc++ ${CMAKE_DL_LIBS} PRIVATE ampd_warnings)
elseif(AMPD_SANITIZER)
  message(FATAL_ERROR "AMPD_SANITIZER is '${AMPD_SANITIZER}'; it may be asan, tsan or empty")
endif()

if(AMPD_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address)
endif()
