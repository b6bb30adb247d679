# ampd_proto(NAME SRCS DEPS)   compiles the messages of .proto files under proto/ to a library `NAME`
# ampd_grpc(NAME SRCS DEPS)    compiles the services of .proto files whose messages are in DEPS
#
# Generated headers are included by their path under proto/, for example "ampd/v1/job.pb.h". Messages and services are
# separate libraries because the trainer uses the messages and must not contain the services.

set(AMPD_GENERATED "${CMAKE_BINARY_DIR}/generated")

function(_ampd_protoc NAME SUFFIX FLAGS SRCS)
  set(_outputs)
  foreach(_source ${SRCS})
    string(REGEX REPLACE "\\.proto$" "" _stem "${_source}")
    set(_files ${AMPD_GENERATED}/${_stem}${SUFFIX}.cc ${AMPD_GENERATED}/${_stem}${SUFFIX}.h)
    add_custom_command(
      OUTPUT ${_files}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${AMPD_GENERATED}
      COMMAND protobuf::protoc -I ${CMAKE_SOURCE_DIR}/proto ${FLAGS} ${_source}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}/proto
      DEPENDS ${CMAKE_SOURCE_DIR}/proto/${_source} protobuf::protoc
      VERBATIM)
    list(APPEND _outputs ${_files})
  endforeach()
  add_library(${NAME} STATIC ${_outputs})
  set_target_properties(${NAME} PROPERTIES UNITY_BUILD OFF)  # Generated sources define the same macros.
  target_include_directories(${NAME} SYSTEM PUBLIC ${AMPD_GENERATED})
  if(AMPD_SANITIZER STREQUAL "asan")
    # Do not check protobuf's own code for undefined behaviour: protobuf does that, and the checks would double the
    # time to compile it.
    target_compile_options(${NAME} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

function(ampd_proto)
  cmake_parse_arguments(P "" "NAME" "SRCS;DEPS" ${ARGN})
  _ampd_protoc(${P_NAME} .pb "--cpp_out=${AMPD_GENERATED}" "${P_SRCS}")
  target_link_libraries(${P_NAME} PUBLIC protobuf::libprotobuf ${P_DEPS})
endfunction()

function(ampd_grpc)
  cmake_parse_arguments(P "" "NAME" "SRCS;DEPS" ${ARGN})
  _ampd_protoc(${P_NAME} .grpc.pb "--grpc_out=${AMPD_GENERATED};--plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN}" "${P_SRCS}")
  target_link_libraries(${P_NAME} PUBLIC gRPC::grpc++ ${P_DEPS})
endfunction()
