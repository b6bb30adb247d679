# Sets the compilers, warnings, sanitizers, ccache and the linker for every target of the tree.

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

# GCC collects its garbage more often than memory requires. Here each compiler may use half a gigabyte before it does.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-expand=100 --param ggc-min-heapsize=524288>")
endif()

# Make clang's precompiled headers reproducible, so that ccache finds the objects compiled with them.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()

# Compile every source with -pthread, even if its libraries do not ask for it: sources that share a precompiled header
# need the same flags.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-pthread>)

# Do not optimize the tests' own code: it runs once and briefly, so optimizing would take longer than it saves. With
# GCC -Og compiles as fast as -O0; with clang it takes twice as long.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(AMPD_TEST_OPTIONS -Og)
else()
  set(AMPD_TEST_OPTIONS -O0)
endif()

# Warnings for our own sources only, never for generated code. ampd_library and ampd_test apply them.
add_library(ampd_warnings INTERFACE)
# -Wno-restrict: at -O2 GCC 12 reports overlaps inside std::string that cannot happen (GCC bug 105329).
# -Wno-maybe-uninitialized: at -O2 GCC does not see that absl::StatusOr's status guards its value.
target_compile_options(ampd_warnings INTERFACE
  -Wall -Wextra -Werror -Wno-missing-field-initializers -Wno-restrict -Wno-maybe-uninitialized)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(ampd_warnings INTERFACE -Wno-unknown-warning-option)
endif()
if(CMAKE_UNITY_BUILD)
  # A unity build includes the sources, so GCC takes them for headers. It warns of a class of a header that has a member
  # whose type is in an unnamed namespace.
  target_compile_options(ampd_warnings INTERFACE -Wno-subobject-linkage)
endif()
target_include_directories(ampd_warnings INTERFACE "${CMAKE_SOURCE_DIR}")

if(AMPD_SANITIZER STREQUAL "asan")
  # vptr checks need run-time type information from libraries that are not instrumented.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr,function -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  add_compile_definitions(AMPD_ASAN)
  add_compile_definitions(GRPC_ASAN_SUPPRESSED)
elseif(AMPD_SANITIZER STREQUAL "tsan")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -O1)
  # Hide from headers that TSan is on. If this macro is set, the headers of protobuf and absl lay classes out
  # differently (protobuf's map fields gain members), but their libraries were built without it. libstdc++ must still
  # know about TSan; there only headers use the macro.
  add_compile_options(-U__SANITIZE_THREAD__ -D_GLIBCXX_TSAN=1)
  add_compile_definitions(AMPD_TSAN)
  add_link_options(-fsanitize=thread)
  add_compile_definitions(GRPC_TSAN_SUPPRESSED)
  # Objects that are linked into every program of a TSan build. They report to TSan the ordering by absl's locks and
  # gRPC's queues, which are not instrumented.
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
