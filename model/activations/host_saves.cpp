#include "model/activations/host_saves.h"

#include <algorithm>
#include <utility>

#include "core/device/across.h"

namespace ds {

// A tensor that one or more closures need again.
class HostSaves::Copy {
 public:
  Copy(HostSaves& of, const Tensor& tensor)
      : of_(of),
        shape_(tensor.shape()),
        dtype_(tensor.dtype()),
        bytes_(tensor.bytes()),
        here_(of.host_.allocate(bytes_, MemoryTag::kActivations)),
        there_(tensor) {
    of_.copies_.wait(of_.compute_.mark());
    copy_across(of_.copies_, Link::kToHost, there_.address(), here_, bytes_,
                {.what = "activations", .of = of_.compute_.label()});
    moved_ = of_.copies_.mark();
  }
  ~Copy() {
    try {
      drop();
    } catch (...) {  // the device failed, which its stream tells whoever waits for it
    }
    of_.host_.deallocate(here_, bytes_, MemoryTag::kActivations);
  }
  Copy(const Copy&) = delete;  // owns bytes of the host
  Copy& operator=(const Copy&) = delete;

  bool is_leaving() const { return staying_ > 0; }
  bool is_of(const Tensor& tensor) const {
    return is_leaving() && there_.aliases(tensor) && there_.bytes() == tensor.bytes();
  }
  void add_use() {
    ++uses_;
    ++staying_;
  }
  void leave() {
    if (--staying_ == 0) drop();
  }
  void fetch() {
    if (there_.defined()) return;
    there_ = Tensor::empty(shape_, dtype_, of_.compute_);
    of_.copies_.wait(of_.compute_.mark());  // for who had these bytes before
    copy_across(of_.copies_, Link::kToDevice, here_, there_.address(), bytes_,
                {.what = "activations", .of = of_.compute_.label()});
    moved_ = of_.copies_.mark();
  }
  Tensor take() {
    fetch();
    of_.compute_.wait(moved_);
    return --uses_ == 0 ? std::exchange(there_, Tensor()) : there_;
  }

 private:
  // Whoever gets the bytes next computes after the copy.
  void drop() {
    if (!there_.defined()) return;
    of_.compute_.wait(moved_);
    there_ = Tensor();
  }

  HostSaves& of_;
  const Shape shape_;
  const DType dtype_;
  const size_t bytes_;
  void* const here_;
  Tensor there_;     // on the device, while it is there
  Event moved_{};    // the latest copy is done
  int uses_ = 0;     // that have not taken it
  int staying_ = 0;  // of them, those whose closure is not past
};

// That of one closure.
class HostSaves::Use final : public SavedTensor {
 public:
  Use(std::shared_ptr<Copy> copy, const Tensor& as) : copy_(std::move(copy)), shape_(as.shape()) {
    copy_->add_use();
  }
  void leave() override { copy_->leave(); }
  void fetch() override { copy_->fetch(); }
  Tensor take() override { return copy_->take().reshape(shape_); }

 private:
  const std::shared_ptr<Copy> copy_;
  const Shape shape_;
};

Saved HostSaves::save(const Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return keep(tensor);
  std::erase_if(leaving_, [](const std::weak_ptr<Copy>& known) {
    const std::shared_ptr<Copy> copy = known.lock();
    return copy == nullptr || !copy->is_leaving();
  });
  for (const std::weak_ptr<Copy>& known : leaving_) {
    std::shared_ptr<Copy> copy = known.lock();
    if (copy->is_of(tensor)) return std::make_shared<Use>(std::move(copy), tensor);
  }
  auto copy = std::make_shared<Copy>(*this, tensor);
  leaving_.push_back(copy);
  return std::make_shared<Use>(std::move(copy), tensor);
}

}  // namespace ds
