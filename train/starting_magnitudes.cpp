#include "train/starting_magnitudes.h"

#include <algorithm>
#include <cmath>

#include "core/memory/resource.h"
#include "core/memory/rounding.h"
#include "core/tasks/thread_pool.h"
#include "core/values/index.h"
#include "model/families/zoo.h"

namespace ds {
namespace {

// Makes of weights what their codes stand for.
void pass_through(const kernels::BlockCode& code, std::vector<float>& values) {
  const size_t numel = values.size();
  values.resize(to_size(round_up(narrow<int64_t>(numel), code.block)));
  ThreadPool pool(1);
  HostMemory memory;
  Stream stream({.memory = &memory, .pool = &pool});
  Tensor all = Tensor::borrow(values.data(), {narrow<int64_t>(values.size())}, DType::kF32);
  const Tensor codes =
      Tensor::empty({code.bytes(all.numel())}, DType::kU8, stream, MemoryTag::kScratch);
  const Tensor unfit = Tensor::zeros({1}, DType::kI32, stream, MemoryTag::kScratch);
  kernels::pack_blocks(stream, all, code, codes, unfit);  // who keeps the weights refuses those
  kernels::unpack_blocks(stream, codes, code, all);
  values.resize(numel);
}

}  // namespace

StartingMagnitudes::StartingMagnitudes(FileSystem& files, const std::string& folder,
                                       const ModelConfig& model,
                                       std::optional<kernels::BlockCode> code)
    : specs_(specs_of_model(model, DType::kF32)),
      weights_(files, folder, specs_, absent_modules(model)),
      inputs_first_(transformer_spec(model).inputs_first),
      code_(code) {}

const std::vector<float>& StartingMagnitudes::lengths_of(const std::string& module) {
  const auto [known, is_new] = lengths_.try_emplace(module);
  std::vector<float>& lengths = known->second;
  if (!is_new) return lengths;
  const auto spec = std::ranges::find(specs_, module + ".weight", &ParamSpec::name);
  DS_CHECK(spec != specs_.end(), "magnitudes: the model has no {}", module);
  const Shape& shape = spec->logical_shape();
  std::vector<float> values(to_size(shape.numel()));
  Tensor flat = Tensor::borrow(values.data(), {shape.numel()}, DType::kF32);
  weights_.read(to_size(spec - specs_.begin()), 0, flat);
  if (code_ && spec->packs) pass_through(*code_, values);
  const int64_t out = inputs_first_ ? shape[1] : shape[0];
  const int64_t in = shape.numel() / out;
  for (int64_t row = 0; row < out; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < in; ++i) {
      const double value = values[to_size(inputs_first_ ? i * out + row : row * in + i)];
      squares += value * value;
    }
    lengths.push_back(static_cast<float>(std::sqrt(squares)));
  }
  return lengths;
}

void StartingMagnitudes::read(const ParamSpec& magnitude, int64_t begin, Tensor& range) {
  const std::vector<float>& lengths = lengths_of(std::string(module_of_parameter(magnitude.name)));
  const Region region = magnitude.region(begin, begin + range.numel());
  for (const Run& run : runs_of(region, magnitude.logical_shape())) {
    std::copy_n(lengths.begin() + run.first, run.numel, range.data<float>() + run.inside);
  }
}

}  // namespace ds
