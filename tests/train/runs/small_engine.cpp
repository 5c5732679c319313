#include "tests/train/runs/small_engine.h"

namespace ds::testing {

BatchSpec text_batches(const EngineOptions& options) {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  const auto stage = make_stage(options.model, options.dtype, store, all_layers(options.model));
  return stage->batch_spec({.samples = options.micro_batch,
                            .length = options.length,
                            .whole_length = options.length,
                            .content = options.content,
                            .mode = RunMode::kTrain});
}

SchedulerConfig warmup_of(int64_t steps) {
  return {.type = SchedulerType::kWarmupLR, .warmup = {.warmup_num_steps = steps}};
}

Gpt2Config small_gpt2(double dropout) {
  return {.n_layer = 2,
          .n_head = 2,
          .n_embd = 32,
          .n_positions = 16,
          .vocab_size = 29,
          .resid_pdrop = dropout,
          .embd_pdrop = dropout,
          .attn_pdrop = dropout};
}

ZeroPolicy policy_of(const Setting& s) {
  ZeroPolicy policy = zero_policy(s.stage);
  policy.state.tier = policy.grads.tier = s.state;
  policy.params.tier = s.params;
  return policy;
}

MeshSizes mesh_of(const Setting& s) {
  return {.pipe = s.pipe,
          .data = s.ranks / s.pipe / s.sequence / s.tensor,
          .sequence = s.sequence,
          .tensor = s.tensor,
          .shard = s.near,
          .ring = s.ring};
}

EngineOptions options_of(const Setting& s) {
  const bool nvme = s.params == Tier::kNvme;
  ModelConfig model = small_gpt2(s.dropout);
  model.adapters = s.adapters;
  return {.model = model,
          .dtype = s.dtype,
          .operands = s.operands,
          .zero = {.layout = {.bucket_numel = 5000,
                              .persistence_numel = 64,
                              .gather = {.prefetch_numel = 4000,
                                         .live_numel = 12000,
                                         .reuse_numel = 3000,
                                         .fetch_numel = 4000,
                                         .fetches = 3},
                              .frozen = s.frozen},
                   .placement = {.policy = policy_of(s),
                                 .weights = {.host_numel = nvme ? s.host_numel : INT64_MAX,
                                             .buffers = 3}},
                   .state = {.masters = s.masters,
                             .rounding_seed = s.rounding_seed,
                             .sub_group_numel = s.sub_group_numel,
                             .update_ahead = s.update_ahead,
                             .zenflow = s.zenflow,
                             .offload_ratio = s.offload_ratio,
                             .rolling = s.rolling},
                   .wire = {.slice_dtype = s.micro_steps > 1 && s.masters == Masters::kFp32
                                               ? DType::kF32
                                               : s.dtype,
                            .dtype = s.wire,
                            .modules = s.wire_modules,
                            .micro_steps = s.micro_steps}},
          .optimizer = s.optimizer,
          .schedule = warmup_of(4),
          .gradient_clipping = s.clipping,
          .loss_scale = s.loss_scale,
          .gradient_factor = s.gradient_factor,
          .micro_batch = s.global_batch / mesh_of(s).data / s.micro_steps,
          .length = 16,
          .content = s.content,
          .lengths = s.lengths,
          .shared_layers = {.rows = s.shares_rows},
          .pipeline = s.pipeline,
          .seed = 5,
          .recomputed = s.recomputed,
          .gpu = {.graphs = s.cuda_graphs, .matmul = {.allow_tf32 = s.allow_tf32}},
          .offload_activations = s.offload_activations};
}

void collect(Engine& engine, Outcome& outcome, std::mutex& mutex) {
  const std::lock_guard lock(mutex);
  engine.store().state().visit_owned(Visit::kSave, [&](OwnedPart& part) {
    for (const ShardField& field : part.fields) {
      const ParamSpec& spec = engine.store().spec(field.param);
      const auto copy = [&](const std::string& slot, const Tensor& from) {
        std::vector<float>& into = outcome.state[spec.name + "/" + slot];
        into.resize(static_cast<size_t>(spec.logical_shape().numel()));
        const Region region = spec.region(field.param_begin, field.param_begin + field.numel);
        for (const Run& run : runs_of(region, spec.logical_shape())) {
          const Tensor range = from.narrow(field.offset + run.inside, run.numel);
          engine.stream().copy(range.address(), into.data() + run.first, range.bytes());
        }
      };
      copy("weight", part.master);
      for (size_t i = 0; i < part.specs.size(); ++i) copy(part.specs[i].name, part.slots[i]);
    }
  });
}

StepResult train_step(Engine& engine, BatchSource& source, int64_t flags) {
  engine.begin_step(source, flags);
  return engine.next_result(Wait::kYes).value();
}

std::vector<StepResult> train_until(Engine& engine, BatchSource& source, int64_t last) {
  std::vector<StepResult> results;
  for (;;) {
    switch (next_move({.begun = engine.begun(),
                       .known = engine.step(),
                       .last = last,
                       .late = engine.results_late()},
                      Edge::kPassed)) {
      case StepMove::kBegin:
        engine.begin_step(source, 0);
        break;
      case StepMove::kTakeResult:
        results.push_back(engine.next_result(Wait::kYes).value());
        break;
      case StepMove::kEnd:
        return results;
    }
  }
}

void set_first_weight(Engine& engine, float value) {
  bool first = true;
  engine.store().state().visit_owned(Visit::kRestore, [&](OwnedPart& part) {
    if (std::exchange(first, false)) {
      const Tensor first_of_all = part.master.narrow(part.fields.front().offset, 1);
      engine.stream().copy(&value, first_of_all.address(), sizeof value);
    }
  });
}

}  // namespace ds::testing
