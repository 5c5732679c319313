#include "model/pass/saved.h"

#include <utility>

namespace ds {
namespace {

class KeptTensor final : public SavedTensor {
 public:
  explicit KeptTensor(const Tensor& tensor) : tensor_(tensor) {}
  Tensor take() override { return std::exchange(tensor_, Tensor()); }

 private:
  Tensor tensor_;
};

}  // namespace

Tensor take(Saved& saved) {
  DS_CHECK(saved != nullptr, "take: this saved tensor was taken before");
  return std::exchange(saved, nullptr)->take();
}

Saved keep(const Tensor& tensor) { return std::make_shared<KeptTensor>(tensor); }

}  // namespace ds
