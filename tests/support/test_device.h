// Which device the tests of a program compute on: `--device cpu | emulated | cuda:N`.
#pragma once

#include "core/values/device.h"

namespace ds::testing {

struct TestDevice {
  Device device = Device::cpu();
  bool is_emulated = false;    // what takes long there is made shorter
  bool is_for_choice = false;  // the program's tests run on others than the CPU, too
  void (*probe)() = nullptr;   // throws where the machine has no such device
};
inline TestDevice& test_device() {
  static TestDevice device;
  return device;
}

}  // namespace ds::testing
