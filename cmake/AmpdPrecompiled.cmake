# Precompiled headers: the headers that most sources of a kind include anyway, parsed once per build instead of once per
# source. There is one for libraries that link no messages, one for those that do and one for those that link LibTorch.
# The tests have the same three with GoogleTest added. Precompiled headers only save time: a source still includes what it
# uses, and scripts/tidy reads every source without them.
#
# ampd_precompiled(TARGET [TEST] TORCH ON|OFF DEPS...)   gives TARGET the precompiled header that fits what it links
#
# GCC needs the flags that a precompiled header was made with, but does not refuse all others (it crashes when -O1 and -O2
# are mixed in a sanitizer build). So a source with its own compile options has the property SKIP_PRECOMPILE_HEADERS, and a
# library with its own options has DISABLE_PRECOMPILE_HEADERS. The libraries of ampd_optimize have precompiled headers of
# their own, except those with LibTorch: too few would use one.

set(_standard
  <algorithm> <chrono> <cmath> <cstdint> <deque> <filesystem> <functional> <map> <memory> <mutex> <optional> <set>
  <sstream> <string> <string_view> <thread> <unordered_map> <unordered_set> <utility> <variant> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h> <absl/synchronization/mutex.h> <absl/time/time.h>)
set(_messages "<ampd/v1/job_service.pb.h>" "<ampd/v1/worker_service.pb.h>")
set(_torch <ATen/Context.h> <ATen/core/Tensor.h> <ATen/core/ivalue.h> <c10/core/DeviceGuard.h>)
set(_test <fstream> <gmock/gmock.h> <gtest/gtest.h>)

function(_ampd_precompiled_header NAME)
  cmake_parse_arguments(P "" "" "OPTIONS;HEADERS;DEPS" ${ARGN})
  set(_target "ampd_precompiled_${NAME}")
  add_library(${_target} OBJECT EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/cmake/precompiled.cc")
  target_link_libraries(${_target} PRIVATE ampd_warnings ${P_DEPS}
    absl::status absl::statusor absl::strings absl::synchronization absl::time)
  target_compile_options(${_target} PRIVATE ${P_OPTIONS})
  target_precompile_headers(${_target} PRIVATE ${P_HEADERS})
endfunction()

# Adds the targets that compile the precompiled headers. REQUIRES: the libraries that the headers belong to are
# defined.
function(ampd_add_precompiled_headers)
  set(_tests "")
  if(AMPD_BUILD_TESTS)
    set(_tests _test)
  endif()
  foreach(_suffix "" ${_tests})
    set(_headers ${_standard})
    set(_deps)
    set(_options)
    if(_suffix)
      list(APPEND _headers ${_test})
      set(_deps GTest::gtest GTest::gmock)
      list(APPEND _options ${AMPD_TEST_OPTIONS})
    endif()
    _ampd_precompiled_header(plain${_suffix} OPTIONS ${_options} HEADERS ${_headers} DEPS ${_deps})
    _ampd_precompiled_header(messages${_suffix} OPTIONS ${_options} HEADERS ${_headers} ${_messages} DEPS ${_deps} proto_messages)
    if(AMPD_WITH_TORCH OR AMPD_TORCH_ROOMS)
      _ampd_precompiled_header(torch${_suffix} OPTIONS ${_options}
        HEADERS ${_headers} ${_messages} ${_torch} DEPS ${_deps} proto_messages torchw::cpu)
    endif()
  endforeach()
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    _ampd_precompiled_header(plain_optimized OPTIONS -O2 HEADERS ${_standard})
    _ampd_precompiled_header(messages_optimized OPTIONS -O2 HEADERS ${_standard} ${_messages} DEPS proto_messages)
  endif()
endfunction()

# Sets OUT to whether one of the targets is, or links, the library of messages. Looks only into our own targets that
# are already defined.
function(_ampd_links_messages OUT)
  set(_links OFF)
  foreach(_target ${ARGN})
    if(_target STREQUAL proto_messages)
      set(_links ON)
    elseif(TARGET ${_target})
      get_target_property(_imported ${_target} IMPORTED)
      if(_imported)
        continue()
      endif()
      get_target_property(_known ${_target} AMPD_LINKS_MESSAGES)
      if(_known STREQUAL "_known-NOTFOUND")
        get_target_property(_deps ${_target} INTERFACE_LINK_LIBRARIES)
        _ampd_links_messages(_known ${_deps})
        set_target_properties(${_target} PROPERTIES AMPD_LINKS_MESSAGES ${_known})
      endif()
      if(_known)
        set(_links ON)
      endif()
    endif()
  endforeach()
  set(${OUT} ${_links} PARENT_SCOPE)
endfunction()

function(ampd_precompiled TARGET)
  cmake_parse_arguments(P "TEST" "TORCH" "DEPS" ${ARGN})
  set(_kind plain)
  _ampd_links_messages(_messages ${P_DEPS})
  if(_messages)
    set(_kind messages)
  endif()
  if(P_TORCH)
    set(_kind torch)
  endif()
  if(P_TEST)
    string(APPEND _kind _test)
  endif()
  get_target_property(_type ${TARGET} TYPE)
  if(NOT _type STREQUAL "INTERFACE_LIBRARY")
    target_precompile_headers(${TARGET} REUSE_FROM ampd_precompiled_${_kind})
  endif()
endfunction()
