# The helpers that every room (folder) uses. A target is named <room>_<NAME>, where <room> is the folder's path with
# underscores. Without a NAME it is the library of the whole folder, <room>, or its test program, <room>_test.
#
# ampd_library(NAME HDRS SRCS DEPS [TORCH])   a static library, or an interface library if there are no SRCS
# ampd_binary(NAME SRCS DEPS [TORCH])         a program, named NAME without a prefix
# ampd_test(NAME SRCS DEPS [TORCH] [APART] [TIMEOUT] [LABELS])  a GoogleTest program in tests/<room>, which is one CTest
#                                             entry. APART: its sources define the same names in their unnamed
#                                             namespaces, so a unity build compiles them one by one
# ampd_optimize(TARGETS...)                   compiles libraries with -O2 in the debug and sanitizer builds too
# ampd_long_test(NAME COMMAND ENVIRONMENT TIMEOUT)  a CTest entry <NAME>_long for a test with more rounds, as its
#                                             ENVIRONMENT sets; only `scripts/test --long` (ctest -C long) runs it

function(_ampd_room OUT)
  file(RELATIVE_PATH _room "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(REGEX REPLACE "^tests/" "" _room "${_room}")
  string(REPLACE "/" "_" _room "${_room}")
  set(${OUT} "${_room}" PARENT_SCOPE)
endfunction()

# Sets OUT to whether targets that need LibTorch are built in this folder.
function(_ampd_has_torch OUT)
  _ampd_room(_room)
  if(AMPD_WITH_TORCH OR _room IN_LIST AMPD_TORCH_ROOMS)
    set(${OUT} ON PARENT_SCOPE)
  else()
    set(${OUT} OFF PARENT_SCOPE)
  endif()
endfunction()

function(_ampd_torch TARGET)
  target_link_libraries(${TARGET} PUBLIC torchw::cpu)
endfunction()

# Links into TARGET what every program of a sanitizer build contains in addition to its own code.
function(_ampd_sanitizer TARGET)
  if(TARGET ampd_tsan)
    target_link_libraries(${TARGET} PRIVATE ampd_tsan)
  endif()
endfunction()

function(_ampd_target OUT NAME)
  _ampd_room(_room)
  if(NAME)
    set(_room "${_room}_${NAME}")
  endif()
  set(${OUT} "${_room}" PARENT_SCOPE)
endfunction()

function(ampd_library)
  cmake_parse_arguments(L "TORCH" "NAME" "HDRS;SRCS;DEPS" ${ARGN})
  _ampd_has_torch(_has_torch)
  if(L_TORCH AND NOT _has_torch)
    return()
  endif()
  _ampd_target(_target "${L_NAME}")
  if(L_SRCS)
    add_library(${_target} STATIC ${L_SRCS} ${L_HDRS})
    target_link_libraries(${_target} PUBLIC ${L_DEPS} PRIVATE ampd_warnings)
    target_include_directories(${_target} PUBLIC "${CMAKE_SOURCE_DIR}")
    if(L_TORCH)
      _ampd_torch(${_target})
    endif()
  else()
    add_library(${_target} INTERFACE)
    target_link_libraries(${_target} INTERFACE ${L_DEPS})
    target_include_directories(${_target} INTERFACE "${CMAKE_SOURCE_DIR}")
    if(L_TORCH)
      target_link_libraries(${_target} INTERFACE torchw::cpu)
    endif()
  endif()
  ampd_precompiled(${_target} TORCH ${L_TORCH} DEPS ${L_DEPS})
endfunction()

function(ampd_optimize)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    foreach(_target ${ARGN})
      target_compile_options(${_target} PRIVATE -O2)
      get_target_property(_header ${_target} PRECOMPILE_HEADERS_REUSE_FROM)
      if(TARGET ${_header}_optimized)
        set_target_properties(${_target} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM ${_header}_optimized)
      else()
        set_target_properties(${_target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()
  endif()
endfunction()

function(ampd_binary)
  cmake_parse_arguments(B "TORCH" "NAME" "SRCS;DEPS" ${ARGN})
  _ampd_has_torch(_has_torch)
  if(B_TORCH AND NOT _has_torch)
    return()
  endif()
  add_executable(${B_NAME} ${B_SRCS})
  target_link_libraries(${B_NAME} PRIVATE ${B_DEPS} ampd_warnings)
  _ampd_sanitizer(${B_NAME})
  if(B_TORCH)
    _ampd_torch(${B_NAME})
  endif()
  ampd_precompiled(${B_NAME} TORCH ${B_TORCH} DEPS ${B_DEPS})
endfunction()

function(ampd_test)
  cmake_parse_arguments(T "TORCH;APART" "NAME;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  _ampd_has_torch(_has_torch)
  if(T_TORCH AND NOT _has_torch)
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(AMPD_SANITIZER)
    math(EXPR T_TIMEOUT "3 * ${T_TIMEOUT}")  # Sanitizers make programs several times slower.
  endif()
  _ampd_target(_target "${T_NAME}")
  string(APPEND _target _test)
  add_executable(${_target} ${T_SRCS})
  set_target_properties(${_target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(T_APART)
    set_target_properties(${_target} PROPERTIES UNITY_BUILD OFF)
  endif()
  target_link_libraries(${_target} PRIVATE ${T_DEPS} ampd_warnings GTest::gtest GTest::gmock GTest::gtest_main)
  _ampd_sanitizer(${_target})
  target_compile_options(${_target} PRIVATE ${AMPD_TEST_OPTIONS})
  target_compile_definitions(${_target} PRIVATE
    AMPD_SOURCE_DIR="${CMAKE_SOURCE_DIR}" AMPD_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  if(T_TORCH)
    _ampd_torch(${_target})
  endif()
  ampd_precompiled(${_target} TEST TORCH ${T_TORCH} DEPS ${T_DEPS})
  # Add one CTest entry per program, not per case: starting a process for each case would load LibTorch hundreds of
  # times.
  add_test(NAME ${_target} COMMAND ${_target} --gtest_output=xml:${CMAKE_BINARY_DIR}/reports/${_target}.xml)
  set_tests_properties(${_target} PROPERTIES TIMEOUT ${T_TIMEOUT} COST ${T_TIMEOUT} LABELS "${T_LABELS}")
  if(T_TORCH)
    # An agent sets GOMP_SPINCOUNT for its trainers in the same way. Without it, two of these tests at once would spin
    # for each other's cores.
    set_tests_properties(${_target} PROPERTIES ENVIRONMENT GOMP_SPINCOUNT=1000)
  endif()
endfunction()

function(ampd_long_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "COMMAND;ENVIRONMENT" ${ARGN})
  add_test(NAME ${T_NAME}_long CONFIGURATIONS long COMMAND ${T_COMMAND})
  set_tests_properties(${T_NAME}_long PROPERTIES TIMEOUT ${T_TIMEOUT} ENVIRONMENT "${T_ENVIRONMENT}")
endfunction()
