#include "model/hf/narrowed_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/status/error.h"
#include "core/text/join_some.h"
#include "core/values/index.h"

namespace ds {

namespace {

constexpr size_t kChunkNumel = size_t{1} << 16;
constexpr int64_t kNarrow = sizeof(float), kWide = sizeof(double);

}  // namespace

NarrowedTensors::NarrowedTensors(std::shared_ptr<const StoredTensors> stored)
    : stored_(std::move(stored)) {
  for (const std::string& name : stored_->names()) {
    SafetensorsInfo info = stored_->info(name);
    if (info.stored_dtype != DType::kF64) continue;
    info.dtype_name = "F32";
    info.stored_dtype = DType::kF32;
    info.bytes = info.bytes / kWide * kNarrow;
    narrowed_.emplace(name, std::move(info));
  }
}

const SafetensorsInfo& NarrowedTensors::info(const std::string& name) const {
  const auto found = narrowed_.find(name);
  return found == narrowed_.end() ? stored_->info(name) : found->second;
}

std::vector<std::string> NarrowedTensors::notes() const {
  constexpr size_t kMostNamed = 3;
  std::vector<std::string> notes = stored_->notes(), names;
  if (narrowed_.empty()) return notes;
  for (const auto& [name, info] : narrowed_) names.push_back(name);
  notes.push_back(fmt::format("tensors of fp64 are read as fp32, rounded to the nearest: {}",
                              join_some(names, kMostNamed)));
  return notes;
}

void NarrowedTensors::read_part(const std::string& name, int64_t offset,
                                std::span<std::byte> into) const {
  if (!narrowed_.contains(name)) return stored_->read_part(name, offset, into);
  DS_CHECK(offset % kNarrow == 0 && std::ssize(into) % kNarrow == 0,
           "read_part: {} bytes from byte {} of '{}'", into.size(), offset, name);
  int64_t element = offset / kNarrow;
  std::vector<double> wide;
  std::vector<float> narrow;
  while (!into.empty()) {
    wide.resize(std::min(into.size() / sizeof(float), kChunkNumel));
    stored_->read_part(name, element * kWide, std::as_writable_bytes(std::span(wide)));
    narrow.resize(wide.size());
    std::ranges::transform(wide, narrow.begin(),
                           [](double value) { return static_cast<float>(value); });
    std::memcpy(into.data(), narrow.data(), narrow.size() * sizeof(float));
    element += std::ssize(wide);
    into = into.subspan(narrow.size() * sizeof(float));
  }
}

}  // namespace ds
