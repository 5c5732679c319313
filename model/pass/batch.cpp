#include "model/pass/batch.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/memory/rounding.h"
#include "core/status/error.h"
#include "kernels/embedding/embedding.h"

namespace ds {
namespace {

// Each field begins where a GPU reads fastest, and where any dtype may.
constexpr int64_t kFieldAlignment = 256;

int64_t field_bytes(const BatchField& field) {
  return field.shape.numel() * static_cast<int64_t>(size_of(field.dtype));
}

double weight_sum(std::span<const int32_t> targets, std::span<const float> weights) {
  double sum = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] >= 0) sum += weights.empty() ? 1.0 : static_cast<double>(weights[i]);
  }
  return sum;
}

}  // namespace

bool BatchSpec::has(std::string_view name) const {
  return std::ranges::find(fields_, name, &BatchField::name) != fields_.end();
}

void BatchSpec::add(const BatchSpec& other) {
  for (const BatchField& field : other.fields_) {
    const auto same = std::ranges::find(fields_, field.name, &BatchField::name);
    if (same == fields_.end()) {
      fields_.push_back(field);
      continue;
    }
    DS_CHECK(same->dtype == field.dtype && same->shape == field.shape && same->kind == field.kind,
             "batch: stages want {} as {} {} and as {} {}", field.name, name_of(same->dtype),
             same->shape.to_string(), name_of(field.dtype), field.shape.to_string());
  }
}

int64_t BatchSpec::bytes() const {
  int64_t bytes = 0;
  for (const BatchField& field : fields_) bytes += round_up(field_bytes(field), kFieldAlignment);
  return bytes;
}

MicroBatch::MicroBatch(std::initializer_list<std::pair<std::string_view, Tensor>> tensors) {
  for (const auto& [name, tensor] : tensors) tensors_.emplace(name, tensor);
}

MicroBatch::MicroBatch(const BatchSpec& spec, Tensor block) : block_(std::move(block)) {
  int64_t at = 0;
  for (const BatchField& field : spec.fields()) {
    const Tensor bytes = block_.narrow(at, field_bytes(field));
    tensors_.emplace(field.name, bytes.reinterpret(field.dtype).reshape(field.shape));
    at += round_up(field_bytes(field), kFieldAlignment);
  }
}

const Tensor& MicroBatch::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  DS_CHECK(found != tensors_.end(), "batch: there is no field {}", name);
  return found->second;
}

void MicroBatch::copy_from(const MicroBatch& other) const {
  for (const auto& [name, to] : tensors_) {
    if (!other.has(name)) continue;
    const Tensor& from = other.tensor(name);
    DS_CHECK(from.bytes() == to.bytes(), "batch: {} has {} bytes, expected {}", name, from.bytes(),
             to.bytes());
    std::memcpy(to.raw(), from.raw(), to.bytes());
  }
}

MicroBatch host_batch(const BatchSpec& spec) {
  const auto bytes = std::make_shared<std::vector<std::max_align_t>>(to_size(spec.bytes()) /
                                                                     sizeof(std::max_align_t));
  return {spec, Tensor::borrow(bytes->data(), {spec.bytes()}, DType::kU8, Device::cpu(), bytes)};
}

void fill_derived(const BatchSpec& spec, const MicroBatch& batch) {
  for (const BatchField& field : spec.fields()) {
    switch (field.kind) {
      case BatchField::Kind::kGiven:
        break;
      case BatchField::Kind::kOrder:
        kernels::sort_tokens(batch.values<int32_t>(field.from), batch.values<int32_t>(field.name));
        break;
      case BatchField::Kind::kWeightSum:
        batch.values<double>(field.name).front() =
            weight_sum(batch.values<int32_t>(field.from),
                       batch.has(batch_field::kWeights) ? batch.values<float>(batch_field::kWeights)
                                                        : std::span<float>());
        break;
    }
  }
}

}  // namespace ds
