// A fake CUDA driver with the functions that cuda_plugin.cc calls. The build defines the number of devices, the version
// and the error of cuInit.
extern "C" {

int cuInit(unsigned /*flags*/) { return FAKE_INIT_ERROR; }

int cuDeviceGetCount(int* count) {
  *count = FAKE_NUM_DEVICES;
  return 0;
}

int cuDriverGetVersion(int* version) {
  *version = FAKE_DRIVER_VERSION;
  return 0;
}
}
