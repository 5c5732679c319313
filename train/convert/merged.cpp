#include "train/convert/merged.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "core/device/stream.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/matmul/matmul.h"
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

  // All of a parameter of the model, flat fp32, with what its adapter adds.
  void read(const std::string& name, Tensor& into) {
    const ParamSpec& spec = nth(specs_, places_.at(name));
    read_(places_.at(name), kWeightSlot, into);
    const auto b =
        places_.find(fmt::format("{}.{}.weight", module_of_parameter(name), adapter_names::kB));
    if (!name.ends_with(".weight") || b == places_.end()) return;
    const std::string module(module_of_parameter(spec.stored ? spec.stored->name : name));
    const size_t a = places_.at(fmt::format("{}.{}.weight", module, adapter_names::kA));
    add(a, b->second, static_cast<float>(rules_.adapter_of(module)->scale), into);
  }

 private:
  Tensor whole(size_t index) {
    const Shape& shape = specs_[index].logical_shape();
    Tensor values = Tensor::empty(shape, DType::kF32, stream_);
    Tensor flat = values.reshape({shape.numel()});
    read_(index, kWeightSlot, flat);
    return values;
  }

  // The order of peft's get_delta_weight(): the product, transposed where inputs come first, times
  // the scale, and then the sum.
  void add(size_t a_place, size_t b_place, float scale, Tensor& into) {
    const Tensor a = whole(a_place), b = whole(b_place);
    const int64_t rank = a.shape()[0], in = a.shape()[1], out = b.shape()[0];
    Tensor delta =
        Tensor::empty(inputs_first_ ? Shape{in, out} : Shape{out, in}, DType::kF32, stream_);
    const kernels::MatrixView outputs = kernels::matrix(b, out, rank),
                              inputs = kernels::matrix(a, rank, in);
    using kernels::Transpose;
    kernels::matmul(stream_, {.a = inputs_first_ ? inputs : outputs,
                              .b = inputs_first_ ? outputs : inputs,
                              .c = kernels::matrix(delta, delta.shape()[0], delta.shape()[1]),
                              .transpose_a = inputs_first_ ? Transpose::kYes : Transpose::kNo,
                              .transpose_b = inputs_first_ ? Transpose::kYes : Transpose::kNo});
    kernels::scale(stream_, scale, delta);
    kernels::accumulate(stream_, delta.reshape({delta.numel()}), into);
  }

  std::vector<ParamSpec> specs_;
  std::function<void(size_t index, const std::string& slot, Tensor& into)> read_;
  AdapterRules rules_;
  bool inputs_first_;
  std::map<std::string, size_t> places_;
  HostMemory heap_;
  ThreadPool pool_{1};
  Stream stream_{{.device = Device::cpu(), .memory = &heap_, .pool = &pool_}};
};

}  // namespace

void merge_adapters(ConversionSource& source) {
  if (!source.model.adapters) return;
  const auto merger = std::make_shared<Merger>(source);
  source.model.adapters.reset();
  source.specs = specs_of_model(source.model, DType::kF32);
  source.slots.clear();
  source.frozen.clear();
  source.read = [merger, specs = source.specs](size_t index, const std::string&, Tensor& into) {
    merger->read(nth(specs, index).name, into);
  };
  source.about.notes.emplace_back("the adapters are merged into the weights of the model");
}

}  // namespace ds
