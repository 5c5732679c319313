#include "train/convert/merged.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "core/tasks/thread_pool.h"
#include "core/values/index.h"
#include "model/families/zoo.h"

namespace ds {
namespace {

using deepspeed::kWeightSlot;

class Merger {
 public:
  explicit Merger(ConversionSource& source)
      : specs_(std::move(source.specs)),
        read_(std::move(source.read)),
        rules_(*source.model.adapters),
        inputs_first_(transformer_spec(source.model).inputs_first) {
    for (size_t i = 0; i < specs_.size(); ++i) places_[specs_[i].name] = i;
  }

  // A parameter of the model from an element on, flat fp32, with what its adapter adds; all of it,
  // if it has one.
  void read(const std::string& name, int64_t begin, Tensor& into) {
    const ParamSpec& spec = nth(specs_, places_.at(name));
    read_(places_.at(name), kWeightSlot, begin, into);
    const auto b =
        places_.find(fmt::format("{}.{}.weight", module_of_parameter(name), adapter_names::kB));
    if (!name.ends_with(".weight") || b == places_.end()) return;
    DS_CHECK(begin == 0 && into.numel() == spec.logical_shape().numel(),
             "merge: a part of {}, which has an adapter", name);
    const std::string module(module_of_parameter(spec.stored ? spec.stored->name : name));
    const size_t a = places_.at(fmt::format("{}.{}.weight", module, adapter_names::kA));
    const auto magnitude = places_.find(
        fmt::format("{}.{}.weight", module_of_parameter(name), adapter_names::kMagnitude));
    add({.a = a,
         .b = b->second,
         .magnitude = magnitude == places_.end() ? std::nullopt : std::optional(magnitude->second),
         .scale = static_cast<float>(rules_.adapter_of(module)->scale)},
        into);
  }

 private:
  std::vector<float> whole(size_t index) {
    std::vector<float> values(to_size(specs_[index].logical_shape().numel()));
    Tensor flat = Tensor::borrow(values.data(), {narrow<int64_t>(values.size())}, DType::kF32);
    read_(index, kWeightSlot, 0, flat);
    return values;
  }

  // An adapter, by the places of its parameters.
  struct Parts {
    size_t a, b;
    std::optional<size_t> magnitude;
    float scale;
  };

  // The bits are those of peft's merge: a product whose sums begin with the first of the rank and
  // round once a step, times the scale, and then the sum with the weight.
  void add(const Parts& parts, Tensor& into) {
    const Shape& shape = specs_[parts.a].logical_shape();
    const int64_t rank = shape[0], in = shape[1], out = specs_[parts.b].logical_shape()[0];
    const std::vector<float> a = whole(parts.a), b = whole(parts.b);
    const std::vector<float> magnitudes =
        parts.magnitude ? whole(*parts.magnitude) : std::vector<float>();
    float* const weight = into.data<float>();
    pool_.parallel_for(out, kRowsAtOnce, [&](int64_t begin, int64_t end) {
      std::vector<float> delta(to_size(in));
      for (int64_t row = begin; row < end; ++row) {
        std::ranges::fill(delta, 0.0F);
        for (int64_t k = 0; k < rank; ++k) {
          const float factor = b[to_size(row * rank + k)];
          for (int64_t i = 0; i < in; ++i) {
            delta[to_size(i)] = std::fma(factor, a[to_size(k * in + i)], delta[to_size(i)]);
          }
        }
        double squares = 0;
        const auto place = [&](int64_t i) { return inputs_first_ ? i * out + row : row * in + i; };
        for (int64_t i = 0; i < in; ++i) {
          float& value = weight[place(i)];
          value += delta[to_size(i)] * parts.scale;
          squares += double{value} * double{value};
        }
        if (magnitudes.empty()) continue;
        const float factor = magnitudes[to_size(row)] / static_cast<float>(std::sqrt(squares));
        for (int64_t i = 0; i < in; ++i) weight[place(i)] *= factor;
      }
    });
  }

  static constexpr int64_t kRowsAtOnce = 16;

  std::vector<ParamSpec> specs_;
  decltype(ConversionSource::read) read_;
  AdapterRules rules_;
  bool inputs_first_;
  std::map<std::string, size_t> places_;
  ThreadPool pool_{static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))};
};

}  // namespace

void merge_adapters(ConversionSource& source) {
  if (!source.model.adapters) return;
  const auto merger = std::make_shared<Merger>(source);
  source.model.adapters.reset();
  source.specs = specs_of_model(source.model, DType::kF32);
  source.slots.clear();
  source.frozen.clear();
  source.read = [merger, specs = source.specs](size_t index, const std::string&, int64_t begin,
                                               Tensor& into) {
    merger->read(nth(specs, index).name, begin, into);
  };
  source.about.notes.emplace_back("the adapters are merged into the weights of the model");
}

}  // namespace ds
