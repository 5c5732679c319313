// HostSaves: activations wait for the backward pass in memory of the host. Each is copied out while
// the forward pass goes on, its place on the device is free when the closure after the one that
// saved it has been recorded, and it is copied back while the closure before the one that needs it
// runs. Two closures that save one tensor have one copy of it. What never left, because the
// backward pass began, is not copied back.
#pragma once

#include <memory>
#include <vector>

#include "core/device/stream.h"
#include "core/memory/adaptors.h"
#include "model/pass/saved.h"

namespace ds {

class HostSaves final : public SavePolicy {
 public:
  // compute: where tensors are made and used, and whose memory they come back to. copies: where
  // they are copied, perhaps the same. host: pinned where the device is not the host itself. All
  // have to outlive the saves, and these all that was saved.
  HostSaves(Stream& compute, Stream& copies, MemoryResource& host)
      : compute_(compute), copies_(copies), host_(host) {}
  HostSaves(const HostSaves&) = delete;  // what it saved refers to it
  HostSaves& operator=(const HostSaves&) = delete;

  Saved save(const Tensor& tensor) override;

 private:
  class Copy;
  class Use;

  Stream& compute_;
  Stream& copies_;
  RecyclingMemory host_;  // every micro-batch saves the same again
  std::vector<std::weak_ptr<Copy>> leaving_;
};

}  // namespace ds
