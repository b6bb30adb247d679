# Finds LibTorch only in the unpacked wheel at TORCH_WHEEL_ROOT: a distribution's older LibTorch must never be picked
# up. Defines torchw::headers, torchw::c10, torchw::gomp, torchw::cpu.
#
# The wheel's TorchConfig.cmake is not used: it requires a CUDA toolkit, rewrites global CUDA flags and adds a dummy
# protobuf target.

include(FindPackageHandleStandardArgs)

find_path(TorchWheel_INCLUDE ATen/ATen.h PATHS "${TORCH_WHEEL_ROOT}/include" NO_DEFAULT_PATH)
foreach(_library c10 torch_cpu)
  find_library(TorchWheel_${_library} ${_library} PATHS "${TORCH_WHEEL_ROOT}/lib" NO_DEFAULT_PATH)
endforeach()
find_file(TorchWheel_gomp libgomp.so.1 PATHS "${TORCH_WHEEL_ROOT}/lib" NO_DEFAULT_PATH)

find_package_handle_standard_args(
  TorchWheel
  REQUIRED_VARS TorchWheel_INCLUDE TorchWheel_c10 TorchWheel_torch_cpu TorchWheel_gomp
  REASON_FAILURE_MESSAGE "no torch wheel at ${TORCH_WHEEL_ROOT}: run scripts/setup or configure with -DAMPD_WITH_TORCH=OFF")

if(TorchWheel_FOUND AND NOT TARGET torchw::cpu)
  add_library(torchw::headers INTERFACE IMPORTED)
  # Search the wheel's headers last (-idirafter): it ships its own google/protobuf and fmt headers, which must not
  # shadow the system's.
  target_compile_options(torchw::headers INTERFACE
    "SHELL:-idirafter ${TorchWheel_INCLUDE}" "SHELL:-idirafter ${TorchWheel_INCLUDE}/torch/csrc/api/include")
  target_compile_definitions(torchw::headers INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC)

  add_library(torchw::c10 SHARED IMPORTED)
  set_target_properties(torchw::c10 PROPERTIES IMPORTED_LOCATION "${TorchWheel_c10}")
  # The OpenMP library that torch_cpu uses: its loops and ours share one pool of threads.
  add_library(torchw::gomp SHARED IMPORTED)
  set_target_properties(torchw::gomp PROPERTIES IMPORTED_LOCATION "${TorchWheel_gomp}")
  add_library(torchw::cpu SHARED IMPORTED)
  set_target_properties(torchw::cpu PROPERTIES IMPORTED_LOCATION "${TorchWheel_torch_cpu}")
  target_link_libraries(torchw::cpu INTERFACE torchw::headers torchw::c10)
  target_link_options(torchw::cpu INTERFACE "LINKER:--allow-shlib-undefined")
endif()
