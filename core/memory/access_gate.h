// AccessGate: memory that may be touched only while work of the device runs. In the product there
// is none. Tests close one around a step, so that on the CPU, too, the host faults where it reads
// what would be a GPU's memory, outside of a kernel, a copy or a collective.
#pragma once

namespace ds {

// Thread-safe. Calls nest: what is open stays so until the last who opened it has closed it.
class AccessGate {
 public:
  virtual ~AccessGate() = default;
  virtual void open() noexcept = 0;
  virtual void close() noexcept = 0;
};

// For its lifetime the gate is open; null: there is nothing to open.
class DeviceAccess {
 public:
  explicit DeviceAccess(AccessGate* gate) : gate_(gate) {
    if (gate_ != nullptr) gate_->open();
  }
  ~DeviceAccess() {
    if (gate_ != nullptr) gate_->close();
  }
  DeviceAccess(const DeviceAccess&) = delete;  // closes what it opened, exactly once
  DeviceAccess& operator=(const DeviceAccess&) = delete;

 private:
  AccessGate* const gate_;
};

}  // namespace ds
