// A CUDA driver as far as cuda_plugin.cc asks it. Compiled with the number of devices and the version as macros.
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
