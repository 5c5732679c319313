#include "model/stores/plain_store.h"

#include "core/device/host_copy.h"
#include "core/values/index.h"
#include "model/pass/initializer.h"

namespace ds {

PlainStore::PlainStore(Stream& stream, uint64_t seed, Gradients gradients)
    : stream_(stream), seed_(seed), gradients_(gradients) {}

PlainStore::PlainStore(Stream& stream) : stream_(stream), gradients_(Gradients::kNone) {}

ParamId PlainStore::add(ParamSpec spec) {
  DS_CHECK(!sealed_, "add: {} comes after seal()", spec.name);
  for (const Param& other : params_) {
    DS_CHECK(other.spec.name != spec.name, "add: {} was added before", spec.name);
  }
  params_.emplace_back();
  params_.back().spec = std::move(spec);
  return count() - 1;
}

void PlainStore::seal() {
  DS_CHECK(!sealed_, "seal: called twice");
  sealed_ = true;
  HostCopy through(stream_);
  for (Param& param : params_) {
    const ParamSpec& spec = param.spec;
    param.weight = Tensor::empty(spec.shape, spec.dtype, stream_, MemoryTag::kParameters);
    if (seed_) {
      through.up(param.weight, [&](int64_t first, Tensor& part) {
        initialize(spec, *seed_, first, part, &stream_.pool());
      });
    }
    if (gradients_ == Gradients::kAllocate && spec.trains) {
      param.gradient = Tensor::empty(spec.shape, spec.dtype, stream_, MemoryTag::kGradients);
    }
  }
}

Lease PlainStore::acquire(ParamId id) {
  DS_CHECK(sealed_, "acquire: {} before seal()", at(id).spec.name);
  return Lease(at(id).weight, nullptr);
}

GradSlot PlainStore::grad_slot(ParamId id) {
  Param& param = at(id);
  DS_CHECK(param.spec.trains, "grad_slot: {} does not train", param.spec.name);
  DS_CHECK(param.gradient.defined(), "grad_slot: {}: this store holds no gradients",
           param.spec.name);
  DS_CHECK(!param.slot_open, "grad_slot: {}: the contribution before was not reported ready",
           param.spec.name);
  param.slot_open = true;
  const auto write = param.fresh ? kernels::Write::kOverwrite : kernels::Write::kAccumulate;
  param.fresh = false;
  return {param.gradient, write};
}

void PlainStore::grad_ready(ParamId id) {
  Param& param = at(id);
  DS_CHECK(param.slot_open, "grad_ready: {}: no contribution was begun", param.spec.name);
  param.slot_open = false;
  param.uses_ready = (param.uses_ready + 1) % param.uses_expected;
}

void PlainStore::expect_uses(ParamId id, int uses) {
  DS_CHECK(!sealed_ && uses > 0, "expect_uses: {} uses of {}, to be said before seal()", uses,
           at(id).spec.name);
  at(id).uses_expected = uses;
}

Tensor& PlainStore::gradient(ParamId id) {
  Param& param = at(id);
  DS_CHECK(!param.slot_open && param.uses_ready == 0 && !param.fresh,
           "gradient: {} is not complete", param.spec.name);
  return param.gradient;
}

void PlainStore::clear_gradients() {
  for (Param& param : params_) {
    DS_CHECK(!param.slot_open, "clear_gradients: {} is being written", param.spec.name);
    param.fresh = true;
    param.uses_ready = 0;
  }
}

size_t PlainStore::index(ParamId id) const {
  DS_CHECK(id >= 0 && id < count(), "store: parameter {} of {}", id, count());
  return to_size(id);
}

}  // namespace ds
