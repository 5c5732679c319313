#include "core/device/device_flags.h"

#include <array>
#include <string>
#include <utility>

#include "core/device/tensor.h"
#include "core/status/error.h"

namespace ds {
namespace {

struct Word {
  Tensor tensor;
};

constexpr std::array<std::pair<DeviceFlag, std::string_view>, 5> kTexts = {{
    {DeviceFlag::kTokenOutsideVocabulary, "a token outside of the vocabulary"},
    {DeviceFlag::kTargetOutsideVocabulary, "a target outside of the vocabulary"},
    {DeviceFlag::kRowOutsideOrder, "an order of tokens that names a row outside of it"},
    {DeviceFlag::kExpertOutsideLayer, "an expert that the layer does not have"},
    {DeviceFlag::kPlaceOutsideRows, "a place outside of the rows of experts"},
}};

}  // namespace

void require_none_found(std::string_view where, uint32_t found) {
  if (found == 0) return;
  std::string text;
  for (const auto& [flag, what] : kTexts) {
    if ((found & static_cast<uint32_t>(flag)) == 0) continue;
    text += text.empty() ? "" : ", ";
    text += what;
  }
  if (text.empty()) text = fmt::format("flags {:#x}, which nobody knows", found);
  throw DataError(fmt::format("{}: the device found {}", where, text));
}

DeviceFlags::DeviceFlags(Stream& stream) : stream_(&stream) {
  if (stream.stands_for().kind != Device::Kind::kCuda) return;
  Tensor& tensor = stream.state<Word>().tensor;
  if (!tensor.defined()) {
    tensor = Tensor::zeros({1}, DType::kI32, stream, MemoryTag::kScratch);
  }
  word_ = static_cast<uint32_t*>(tensor.address());
}

void DeviceFlags::wait_and_check(std::string_view where) const {
  stream_->synchronize();
  if (word_ == nullptr) return;
  uint32_t found = 0;
  stream_->copy(word_, &found, sizeof found);
  stream_->synchronize();
  if (found == 0) return;
  stream_->fill_bytes(word_, 0, sizeof found);
  require_none_found(where, found);
}

}  // namespace ds
