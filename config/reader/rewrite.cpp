#include "config/reader/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "config/reader/convert.h"

namespace ds {

namespace {

class Rewriter {
 public:
  Rewriter(Value& document, Problems& problems) : document_(document), problems_(problems) {}

  void run() {
    model_folder();
    old_bf16();
    null_as_absent();
    torch_types();
    old_batch_key();
    old_bucket_size();
    zero_as_boolean();
    old_offload("cpu_offload", "offload_optimizer");
    old_offload("cpu_offload_param", "offload_param");
    old_offload("cpu_offload_params", "offload_param");
    old_pin_memory();
    both_pipelines();
    fp32_allreduce();
    printing_at_infinity();
    clipping_in_optimizer();
    old_eigenvalue();
  }

 private:
  void note(std::string path, const Origin& origin, std::string_view replacement) {
    problems_.note(std::move(path), origin, fmt::format("is an older spelling of {}", replacement));
  }
  void both(std::string path, const Origin& origin, std::string_view other) {
    problems_.error(
        Basis::kDeepSpeed, std::move(path), origin,
        fmt::format("is an older spelling of {}, which is given too; remove one", other));
  }
  Value* object_at(std::string_view key) {
    Value* value = document_.find(key);
    return value && value->is_object() ? value : nullptr;
  }
  // The boolean of an old switch; nothing, and an error, when it is none.
  std::optional<bool> switch_at(Basis basis, const std::string& path, const Member& old) {
    const std::optional<bool> on = boolean_of(old.value);
    if (!on) {
      problems_.error(basis, path, old.origin,
                      fmt::format("got {}, expected boolean", old.value.excerpt()));
    }
    return on;
  }
  static bool is_auto(const Value& value) {
    return value.is_string() && value.as_string() == "auto";
  }

  void model_folder();
  void old_bf16();
  void null_as_absent();
  void torch_types();
  void old_batch_key();
  void zero_as_boolean();
  void old_bucket_size();
  void old_offload(std::string_view old_key, std::string_view section);
  void old_pin_memory();
  void both_pipelines();
  void fp32_allreduce();
  void printing_at_infinity();
  void clipping_in_optimizer();
  void old_eigenvalue();

  Value& document_;
  Problems& problems_;
};

void Rewriter::model_folder() {
  Value* model = document_.find("model");
  if (!model || !model->is_string()) return;
  Value section = Value::object(model->origin());
  section.set("folder", *model);
  *model = std::move(section);
}

void Rewriter::old_bf16() {
  const Member* old = document_.find_member("bfloat16");
  const Value* present = document_.find("bf16");
  if (!old) {
    if (present && present->is_null()) document_.erase("bf16");
    return;
  }
  if (present && !present->is_null()) {
    problems_.note("bfloat16", old->origin,
                   "is an older spelling of bf16, which is given too and counts");
    document_.erase("bfloat16");
    return;
  }
  note("bfloat16", old->origin, "bf16");
  Value moved = old->value;
  document_.erase("bfloat16");
  document_.set("bf16", std::move(moved));
}

// The few places besides sections that can be absent where DeepSpeed takes null for "not given".
void Rewriter::null_as_absent() {
  const auto drop = [](Value* object, std::string_view key) {
    const Value* value = object ? object->find(key) : nullptr;
    if (value && value->is_null()) object->erase(key);
  };
  drop(&document_, "aio");
  drop(object_at("optimizer"), "params");
  Value* zero = object_at("zero_optimization");
  drop(zero, "overlap_comm");
  drop(zero, "leaf_module");
  for (const std::string_view section : {"offload_optimizer", "offload_param"}) {
    Value* offload = zero ? zero->find(section) : nullptr;
    if (offload && offload->is_object()) drop(offload, "nvme_path");
  }
}

// PyTorch's names of the three types, where DeepSpeed takes them beside its own.
void Rewriter::torch_types() {
  using Names = std::pair<std::string_view, std::string_view>;
  constexpr std::array kNames = {Names{"float32", "fp32"}, Names{"float", "fp32"},
                                 Names{"float16", "fp16"}, Names{"half", "fp16"},
                                 Names{"bfloat16", "bf16"}};
  const auto rename = [&](std::string_view section, std::string_view key) {
    Value* object = object_at(section);
    Value* type = object ? object->find(key) : nullptr;
    if (!type || !type->is_string()) return;
    std::string_view name = type->as_string();
    if (name.starts_with("torch.")) name.remove_prefix(6);
    for (const auto& [torch, ours] : kNames) {
      if (name == torch) name = ours;
    }
    *type = Value::string(std::string(name), type->origin());
  };
  for (const std::string_view key : {"grad_accum_dtype", "param_dtype", "buffer_dtype"})
    rename("data_types", key);
  rename("torch_autocast", "dtype");
}

void Rewriter::old_batch_key() {
  constexpr std::string_view kNew = "train_micro_batch_size_per_gpu";
  const Member* old = document_.find_member("train_step_batch_size");
  if (!old) return;
  if (document_.find(kNew)) return both("train_step_batch_size", old->origin, kNew);
  note("train_step_batch_size", old->origin, kNew);
  Value moved = old->value;
  document_.erase("train_step_batch_size");
  document_.set(kNew, std::move(moved));
}

void Rewriter::zero_as_boolean() {
  Value* zero = document_.find("zero_optimization");
  if (!zero || zero->kind() != Value::Kind::kBoolean) return;
  const Origin origin = zero->origin();
  const int64_t stage = zero->as_boolean() ? 1 : 0;
  note("zero_optimization", origin, fmt::format("{{\"stage\": {}}}", stage));
  *zero = Value::object(origin);
  zero->set("stage", Value::integer(stage, origin));
}

// Read beside the boolean form of zero_optimization only.
void Rewriter::old_bucket_size() {
  constexpr std::string_view kNew = "zero_optimization.allgather_bucket_size";
  const Member* old = document_.find_member("allgather_size");
  if (!old) return;
  const Value moved = old->value;
  const Origin origin = old->origin;
  document_.erase("allgather_size");
  Value* zero = document_.find("zero_optimization");
  if (!zero || zero->kind() != Value::Kind::kBoolean) {
    return problems_.note(
        "allgather_size", origin,
        fmt::format("is ignored, as by DeepSpeed: it is read beside \"zero_optimization\": true "
                    "only; use {}",
                    kNew));
  }
  note("allgather_size", origin, kNew);
  if (!zero->as_boolean()) return;
  zero_as_boolean();
  zero->set("allgather_bucket_size", moved);
}

void Rewriter::old_offload(std::string_view old_key, std::string_view section) {
  Value* zero = object_at("zero_optimization");
  const Member* old = zero ? zero->find_member(old_key) : nullptr;
  if (!old) return;
  const std::string path = fmt::format("zero_optimization.{}", old_key);
  const Origin origin = old->origin;
  if (is_auto(old->value)) return;
  const bool on = !old->value.is_null() && switch_at(Basis::kDeepSpeed, path, *old).value_or(false);
  const Value* present = zero->find(section);
  const bool counts = present && !present->is_null();
  if (present) {
    problems_.note(path, origin,
                   fmt::format("is an older spelling of {}, which is given too{}", section,
                               counts ? " and counts" : " as null"),
                   Basis::kDeepSpeed);
  } else {
    note(path, origin, fmt::format("{} {{\"device\": \"cpu\"}}", section));
  }
  zero->erase(old_key);
  if (!on || counts) return;
  Value offload = Value::object(origin);
  offload.set("device", Value::string("cpu", origin));
  zero->set(section, std::move(offload));
}

void Rewriter::old_pin_memory() {
  Value* zero = object_at("zero_optimization");
  const Member* old = zero ? zero->find_member("cpu_offload_use_pin_memory") : nullptr;
  if (!old) return;
  const Value pin = old->value;
  const std::string path = "zero_optimization.cpu_offload_use_pin_memory";
  note(path, old->origin, "offload_*.pin_memory");
  const bool given = !pin.is_null() && !is_auto(pin);
  if (given && !switch_at(Basis::kDeepSpeed, path, *old)) return;
  zero->erase("cpu_offload_use_pin_memory");
  if (!given) return;
  for (const std::string_view section : {"offload_optimizer", "offload_param"}) {
    Value* offload = zero->find(section);
    if (offload && offload->is_object() && !offload->find("pin_memory")) {
      offload->set("pin_memory", pin);
    }
  }
}

// DeepSpeed makes it of the other two for itself; in a file it stands for both.
void Rewriter::both_pipelines() {
  Value* zero = object_at("zero_optimization");
  Value* offload = zero ? zero->find("offload_optimizer") : nullptr;
  const Member* old = offload && offload->is_object() ? offload->find_member("pipeline") : nullptr;
  if (!old) return;
  const Value both = old->value;
  const std::string path = "zero_optimization.offload_optimizer.pipeline";
  note(path, old->origin, "pipeline_read and pipeline_write");
  const bool given = !both.is_null() && !is_auto(both);
  if (given && !switch_at(Basis::kOwn, path, *old)) return;
  offload->erase("pipeline");
  if (!given) return;
  for (const std::string_view key : {"pipeline_read", "pipeline_write"}) {
    if (!offload->find(key)) offload->set(std::string(key), both);
  }
}

void Rewriter::fp32_allreduce() {
  const Member* old = document_.find_member("fp32_allreduce");
  if (!old) return;
  const Origin origin = old->origin;
  const std::optional<bool> on = switch_at(Basis::kOwn, "fp32_allreduce", *old);
  if (!on) return;
  document_.erase("fp32_allreduce");
  note("fp32_allreduce", origin, "communication_data_type: \"fp32\"");
  if (!*on) return;
  const Value* type = document_.find("communication_data_type");
  if (type && type->is_string() && type->as_string() != "fp32") {
    return problems_.error(Basis::kOwn, "fp32_allreduce", origin,
                           fmt::format("contradicts communication_data_type {}", type->excerpt()));
  }
  document_.set("communication_data_type", Value::string("fp32", origin));
}

// What else stands there is another feature's.
void Rewriter::old_eigenvalue() {
  Value* container = object_at("quantize_training");
  const Member* old = container ? container->find_member("eigenvalue") : nullptr;
  if (!old) return;
  const Origin origin = old->origin;
  const std::string path = "quantize_training.eigenvalue";
  if (document_.find("eigenvalue")) return both(path, origin, "eigenvalue");
  note(path, origin, "eigenvalue");
  Value moved = old->value;
  container->erase("eigenvalue");
  document_.set("eigenvalue", std::move(moved));
}

// What accelerate writes for "never", by a name that JSON does not have.
void Rewriter::printing_at_infinity() {
  constexpr std::string_view kKey = "steps_per_print";
  Value* steps = document_.find(kKey);
  if (!steps || !steps->is_string()) return;
  constexpr std::array<std::string_view, 4> kNames = {"Infinity", "inf", "Inf", "infinity"};
  if (std::ranges::find(kNames, steps->as_string()) == kNames.end()) return;
  problems_.note(std::string(kKey), steps->origin(), "infinitely many steps are taken as null");
  *steps = Value::null(steps->origin());
}

// DeepSpeed leaves it aside where the program brings its own optimizer, and refuses it where it
// would make one; it means what gradient_clipping says.
void Rewriter::clipping_in_optimizer() {
  Value* optimizer = object_at("optimizer");
  Value* params = optimizer ? optimizer->find("params") : nullptr;
  const Member* old = params ? params->find_member("max_grad_norm") : nullptr;
  if (!old) return;
  const Value given = old->value;
  const std::string path = "optimizer.params.max_grad_norm";
  const bool number = given.kind() == Value::Kind::kNumber ||
                      given.kind() == Value::Kind::kInteger ||
                      given.kind() == Value::Kind::kBoolean;
  if (!number) {
    return problems_.error(
        Basis::kDeepSpeed, path, old->origin,
        "is not a parameter of the optimizer; use the top-level \"gradient_clipping\"");
  }
  const bool clips = document_.find("gradient_clipping") != nullptr;
  problems_.note(path, old->origin,
                 clips ? "is not a parameter of the optimizer; gradient_clipping, which is given "
                         "too, counts"
                       : "is not a parameter of the optimizer, and is taken as gradient_clipping");
  if (!clips) document_.set("gradient_clipping", given);
  const Value* fp16 = object_at("fp16");
  const Value* enabled = fp16 ? fp16->find("enabled") : nullptr;
  const bool wrapped = enabled && boolean_of(*enabled).value_or(false);
  params = document_.find("optimizer")->find("params");
  if (!wrapped && given.as_number() > 0) {
    params->set("max_grad_norm", Value::number(0.0, given.origin()));
  }
}

}  // namespace

void rewrite_old_spellings(Value& document, Problems& problems) {
  Rewriter(document, problems).run();
}

}  // namespace ds
