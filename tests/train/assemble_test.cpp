// From keys to constructor options: what every optimizer and schedule of the file becomes.
#include "train/assemble.h"

#include "config/available.h"
#include "config/load.h"
#include "core/status/error.h"
#include "data/tokens/token_parts.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

Config config_of(const std::string& more) {
  return parse_config(R"({"model": {"family": "gpt2"}, "data": {"train": ["/t.txt"]},
      "train_batch_size": 4, "optimizer": {"type": "AdamW"}, )" +
                      more + "}");
}

EngineOptions options_of(const std::string& more) {
  return engine_options(config_of(more), Gpt2Config{}, 2);
}

EngineOptions options_with(const std::string& type, const std::string& params) {
  Config config = parse_config(fmt::format(
      R"({{"model": {{"family": "gpt2"}}, "data": {{"train": ["/t.txt"]}}, "train": {{"steps": 40}},
          "train_batch_size": 4, "optimizer": {{"type": "{}", "params": {{{}}}}}}})",
      type, params));
  require_runnable(config);
  return engine_options(config, Gpt2Config{}, 2);
}

TEST_CASE("limits of memory are sizes, and what is none is refused by key", "[rankd]") {
  CHECK(memory_limits(config_of(R"("train_micro_batch_size_per_gpu": 1)")) == MemoryLimits{});
  const MemoryLimits limits =
      memory_limits(config_of(R"("memory": {"device_limit": "4GiB", "host_limit": "200 MB"})"));
  CHECK(limits == MemoryLimits{.device = size_t{4} << 30, .host = 200'000'000});
  CHECK_THROWS_WITH(config_of(R"("memory": {"host_limit": "much"})"),
                    Catch::Contains("memory.host_limit") && Catch::Contains("\"much\" is no size"));
}

TEST_CASE("super_offload updates ahead, with its share of a rank's threads", "[rankd]") {
  const auto section = [](const std::string& keys) {
    return fmt::format(R"("train_micro_batch_size_per_gpu": 1, "zero_optimization": {{"stage": 2,
        "offload_optimizer": {{{}}}}})",
                       keys);
  };
  CHECK(options_of(section(R"("super_offload": true)")).zero.state.update_ahead);
  const auto threads = [&](const std::string& keys, int of) {
    return updater_threads(config_of(section(keys)), of);
  };
  CHECK(threads(R"("super_offload": true)", 10) == 8);
  CHECK(threads(R"("super_offload": true, "cpuadam_cores_perc": 0.5)", 10) == 5);
  CHECK(threads(R"("super_offload": true, "cpuadam_cores_perc": 0)", 10) == 1);
  CHECK(threads(R"("super_offload": true)", 1) == 1);
  CHECK(threads(R"("cpuadam_cores_perc": 0.5)", 10) == 0);
  CHECK(threads(R"("super_offload": true, "device": "none")", 10) == 0);
}

TEST_CASE("zenflow says what is important, and when the rest is updated", "[rankd]") {
  const auto config = [](const std::string& keys, int stage = 2) {
    return config_of(fmt::format(
        R"("train_micro_batch_size_per_gpu": 1, "zero_optimization": {{"stage": {},
           "offload_optimizer": {{}}, "zenflow": {{{}}}}})",
        stage, keys));
  };
  const auto zenflow = [&](const std::string& keys) {
    return engine_options(config(keys), Gpt2Config{}, 2).zero.state.zenflow;
  };
  CHECK(zenflow("") == ZenflowOptions{.select_epochs = 1});
  CHECK(zenflow(R"("topk_ratio": 0.3, "select_strategy": "step", "select_interval": 7,
                   "update_interval": 4, "auto_ratio": 0.5, "full_warm_up_rounds": 3,
                   "overlap_step": true, "offload": true)") ==
        ZenflowOptions{.topk_ratio = 0.3,
                       .select_every = 7,
                       .update_every = 4,
                       .auto_ratio = 0.5,
                       .warm_up = 3,
                       .overlaps = true,
                       .offloads_moments = true});
  CHECK_FALSE(engine_options(config("", 0), Gpt2Config{}, 2).zero.state.zenflow.has_value());
  const auto threads = [&](const std::string& keys, int of) {
    return updater_threads(config(keys), of);
  };
  CHECK(threads("", 10) == 0);
  CHECK(threads(R"("overlap_step": true)", 10) == 5);
  CHECK(threads(R"("overlap_step": true, "pt_reserved_cores_perc": 0.75)", 10) == 2);
  CHECK(threads(R"("overlap_step": true, "pt_reserved_cores_perc": 1)", 10) == 10);
  CHECK(threads(R"("overlap_step": true)", 1) == 1);

  MemoryFileSystem fs;
  fs.create("/t.txt")->write(0, std::as_bytes(std::span(std::string_view("0123456789abcdef"))));
  const SampleSet samples(
      open_token_sources(fs, std::vector<std::string>{"/t.txt"}, ByteTokenizer()), 2, 256);
  const auto counted = [&](const std::string& keys) {
    const Config of = config(keys);
    EngineOptions options = engine_options(of, Gpt2Config{}, 2);
    count_epochs(options, of, samples, 2);
    return *options.zero.state.zenflow;
  };
  // There are 7 samples, 4 of which make a batch.
  REQUIRE(samples.size() == 7);
  CHECK(counted("") == ZenflowOptions{.select_every = 2});
  CHECK(counted(R"("select_strategy": "epoch", "select_interval": 3)").select_every == 6);
  CHECK(counted(R"("select_strategy": "step", "select_interval": 3)").select_every == 3);
  CHECK_THROWS_WITH(counted(R"("update_interval": 3)"),
                    Catch::Contains("zero_optimization.zenflow.update_interval: 3, but columns are "
                                    "chosen every 2 steps"));
}

TEST_CASE("offload_optimizer says where state lies, and how it gets there", "[rankd]") {
  const auto zero = [](const std::string& section) {
    return options_of(R"("train_micro_batch_size_per_gpu": 1, "zero_optimization": )" + section)
        .zero;
  };
  CHECK_FALSE(zero(R"({"stage": 3})").offloads_state());
  CHECK_FALSE(zero(R"({"stage": 3, "offload_optimizer": {"device": "none"}})").offloads_state());
  for (const int stage : {1, 2, 3}) {
    const ZeroOptions host =
        zero(fmt::format(R"({{"stage": {}, "offload_optimizer": {{"device": "cpu"}}}})", stage));
    CHECK(host.placement.policy.state.tier == Tier::kHost);
    CHECK(host.placement.policy.grads.tier == Tier::kHost);
    CHECK(host.placement.policy.params.tier == Tier::kDevice);
    CHECK(host.state.offload_ratio == 1);
  }
  CHECK(zero(R"({"stage": 2, "cpu_offload": true})").placement.policy.state.tier == Tier::kHost);
  CHECK_FALSE(zero(R"({"stage": 2, "cpu_offload": true})").state.update_ahead);
  CHECK(zero(R"({"stage": 2, "sub_group_size": 64})").state.sub_group_numel == INT64_MAX);
  const ZeroOptions nvme = zero(R"({"stage": 3, "sub_group_size": 64, "offload_optimizer": {
      "device": "nvme", "nvme_path": "/disk", "ratio": 0.25, "buffer_count": 5,
      "pin_memory": true, "pipeline_read": true, "fast_init": true}})");
  CHECK(nvme.placement.policy.state.tier == Tier::kNvme);
  CHECK(nvme.state.sub_group_numel == 64);
  CHECK(nvme.state.offload_ratio == 0.25);
  CHECK(nvme.state.pin_memory);
  CHECK(nvme.state.rolling.buffers == 5);
  CHECK((nvme.state.rolling.pipeline_read && !nvme.state.rolling.pipeline_write &&
         nvme.state.rolling.fast_init));
  CHECK(nvme.state.rolling.pinning == Pinning::kRequired);
  CHECK_THROWS_WITH(
      zero(R"({"stage": 3, "offload_optimizer": {"device": "nvme", "buffer_count": 0}})"),
      Catch::Contains("offload_optimizer.buffer_count"));
  // As DeepSpeed has it.
  CHECK(zero(R"({"stage": 2, "offload_optimizer": {"device": "nvme"}})")
            .placement.policy.state.tier == Tier::kHost);
  CHECK(zero(R"({"stage": 2, "offload_param": {"device": "cpu"}})").placement.policy.params.tier ==
        Tier::kDevice);
}

TEST_CASE("the aio section is how swap files are read and written", "[rankd]") {
  const AioConfig aio{.block_size = 8192,
                      .queue_depth = 3,
                      .thread_count = 2,
                      .single_submit = true,
                      .overlap_events = false,
                      .use_gds = true};
  const IoOptions io = io_options(aio, "/disk");
  CHECK(io.block_size == 8192);
  CHECK(io.queue_depth == 3);
  CHECK(io.thread_count == 2);
  CHECK((io.single_submit && !io.overlap_events && io.use_gds));
  CHECK(io.folder == "/disk");
  CHECK_THROWS_WITH(io_options({.block_size = 1000}, ""), Catch::Contains("aio.block_size: 1000"));
  CHECK_THROWS_WITH(io_options({.queue_depth = 100'000}, ""), Catch::Contains("aio.queue_depth"));
}

TEST_CASE("swap files are those of a run directory and a rank", "[rankd]") {
  JobPlan plan;
  plan.rank = 1;
  plan.world_size = 4;
  plan.epoch = 3;
  plan.run_dir = "/runs/big night";
  const SwapOwner owner = swap_owner(plan);
  CHECK_THAT(owner.job, Catch::StartsWith("big-night-"));
  CHECK(owner.job.size() == std::string("big-night-").size() + 8);
  CHECK((owner.epoch == 3 && owner.rank == 1 && owner.world == 4));
  plan.run_dir = "/other/big night";
  CHECK(swap_owner(plan).job != owner.job);
}

TEST_CASE("batches and runs beyond their limits are refused by key", "[rankd]") {
  const auto options = [](const std::string& sizes) {
    return engine_options(
        parse_config(R"({"model": {"family": "gpt2"}, "data": {"train": ["/t.txt"]},
        "optimizer": {"type": "AdamW"}, )" +
                     sizes + "}"),
        Gpt2Config{}, 2);
  };
  CHECK_THROWS_WITH(
      options(R"("train_micro_batch_size_per_gpu": 16385)"),
      Catch::Contains("train_micro_batch_size_per_gpu: 16385 samples of 1024 tokens"));
  CHECK_THROWS_WITH(options(R"("train_micro_batch_size_per_gpu": 4611686018427387904)"),
                    Catch::Contains("does not fit 64 bits"));
  CHECK_THROWS_WITH(options(R"("train_batch_size": 9223372036854775806)"),
                    Catch::Contains("expected at most"));
  CHECK_THROWS_WITH(
      options(R"("train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2147483648)"),
      Catch::Contains("gradient_accumulation_steps: 2147483648, expected at most 65536"));
  MemoryFileSystem fs;
  fs.create("/t.txt")->write(0, std::as_bytes(std::span(std::string_view("0123456789"))));
  const SampleSet samples(
      open_token_sources(fs, std::vector<std::string>{"/t.txt"}, ByteTokenizer()), 4, 256);
  const BatchShape batch{.micro_batch = 4, .accumulation = 1, .ranks = 2};
  TrainSection train;
  train.steps = 7;
  CHECK(total_steps(train, batch, samples.size()) == 7);
  train.steps = INT64_MAX;
  CHECK_THROWS_WITH(total_steps(train, batch, samples.size()), Catch::Contains("train.steps: "));
  train.steps.reset();
  train.epochs = 8;
  CHECK(total_steps(train, batch, samples.size()) == 2);
  train.epochs = 1e300;
  CHECK_THROWS_WITH(total_steps(train, batch, samples.size()), Catch::Contains("train.epochs: "));
}

TEST_CASE("dataloader_drop_last leaves out what makes no whole batch", "[rankd]") {
  const SampleSet samples({std::make_shared<TokenList<int32_t>>("t", std::vector<int32_t>(41))}, 4,
                          8);
  REQUIRE(samples.size() == 10);
  const auto of_epoch = [&](const std::string& keys, int64_t batch) {
    return samples_per_epoch(config_of(keys), {.micro_batch = batch}, samples);
  };
  CHECK(of_epoch(R"("train_micro_batch_size_per_gpu": 4)", 4) == 10);
  CHECK(of_epoch(R"("dataloader_drop_last": true)", 4) == 8);
  CHECK(of_epoch(R"("dataloader_drop_last": true)", 5) == 10);
  CHECK_THROWS_WITH(
      of_epoch(R"("dataloader_drop_last": true)", 11),
      Catch::Contains("dataloader_drop_last: an epoch has 10 samples, which make no batch of 11"));
  CHECK(order_text(config_of(R"("dataloader_drop_last": true)")) == "shuffled, whole batches");
}

TEST_CASE("data_efficiency.seed orders samples where its section is on", "[rankd]") {
  const std::string own = R"("train": {"steps": 4, "seed": 7}, )";
  CHECK(sampler_seed(config_of(own + R"("data_efficiency": {"enabled": false, "seed": 11})")) == 7);
  const Config on = config_of(own + R"("data_efficiency": {"enabled": true, "seed": 11})");
  CHECK(sampler_seed(on) == 11);
  CHECK(order_text(on) == "shuffled by seed 11");
}

TEST_CASE("a Llama built from keys has the dropout that the file asks for", "[rankd]") {
  const Config config =
      parse_config(R"({"model": {"family": "llama", "attention_dropout": 0.25}})");
  MemoryFileSystem fs;
  CHECK(std::get<LlamaConfig>(model_config(config, fs)).attention_dropout == 0.25);
}

TEST_CASE("JSON lines end with the token that the tokenizer's folder names, wherever it does",
          "[rankd]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/m/tokenizer.json", R"({"added_tokens": [{"id": 2, "content": "<end>"}],
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u010a": 3}, "merges": []},
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
          "decoder": {"type": "ByteLevel"}})");
  fs.write_text_atomically("/d.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"ba\"}\n");
  const auto tokens = [&] {
    DataSection section;
    section.train = {"/d.jsonl"};
    section.tokenizer = "/m";
    section.sequence_length = 5;
    const TrainingData data = open_data(section, Gpt2Config{.n_positions = 8, .vocab_size = 4}, fs);
    std::vector<int32_t> ids(6);
    data.train.read(0, ids);
    return ids;
  };
  using Ids = std::vector<int32_t>;
  CHECK(tokens() == Ids{0, 1, 3, 1, 0, 3});
  fs.write_text_atomically("/m/config.json", R"({"eos_token_id": [2, 1]})");
  CHECK(tokens() == Ids{0, 1, 2, 1, 0, 2});
  fs.write_text_atomically("/m/config.json",
                           R"({"eos_token_id": 50256})");  // of another vocabulary
  CHECK(tokens() == Ids{0, 1, 3, 1, 0, 3});
  fs.write_text_atomically("/m/special_tokens_map.json", R"({"eos_token": {"content": "<end>"}})");
  CHECK(tokens() == Ids{0, 1, 2, 1, 0, 2});
  fs.write_text_atomically("/m/tokenizer_config.json", R"({"eos_token": "a"})");
  CHECK(tokens() == Ids{0, 1, 0, 1, 0, 0});
}

TEST_CASE("token ids need no tokenizer, text one that fits the model", "[rankd]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/t.txt", "0123456789");
  const auto open = [&](const std::string& file, const std::string& tokenizer, int64_t vocabulary) {
    DataSection section;
    section.train = {file};
    section.tokenizer = tokenizer;
    section.sequence_length = 4;
    return open_data(section, Gpt2Config{.n_positions = 8, .vocab_size = vocabulary}, fs);
  };
  CHECK_THROWS_WITH(open("/t.txt", "/m", 256),
                    Catch::Contains("/m: the folder holds no tokenizer"));
  CHECK_THROWS_WITH(open("/t.txt", "byte", 255),
                    Catch::Contains("256 tokens") && Catch::Contains("255"));
  CHECK(open("/t.txt", "byte", 256).tokenizer != nullptr);
  const std::array<int32_t, 256> header{20240801, 7, 9};
  const std::array<int32_t, 9> ids{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const auto shard = fs.create("/ids.bin");
  shard->append(std::as_bytes(std::span(header)));
  shard->append(std::as_bytes(std::span(ids)));
  CHECK(open("/ids.bin", "/m", 9).tokenizer == nullptr);
}

TEST_CASE("each optimizer gets its own parameters and rate", "[rankd]") {
  const OptimizerConfig adam = options_with("Adam", R"("lr": 0.5, "betas": [0.8, 0.7])").optimizer;
  CHECK(learning_rate(adam) == 0.5);
  CHECK(adam.adam.betas == std::array{0.8, 0.7});
  const OptimizerConfig lion = options_with("Lion", R"("weight_decay": 0.2)").optimizer;
  CHECK(learning_rate(lion) == 0.001);
  CHECK(lion.lion.weight_decay == 0.2);
  CHECK(learning_rate(options_with("Adagrad", "").optimizer) == 0.01);
  CHECK(learning_rate(options_with("SGD", R"("lr": 0.1)").optimizer) == 0.1);
  const OptimizerConfig onebit = options_with("OneBitAdam", R"("freeze_step": 7)").optimizer;
  CHECK(onebit.onebit_adam.freeze_step == 7);
  CHECK(options_with("ZeroOneAdam", "").last_step == 40);
}

TEST_CASE("weight decay is decoupled for AdamW, and for Adam unless it says otherwise", "[rankd]") {
  CHECK(decays_decoupled(options_with("Adam", "").optimizer));
  CHECK_FALSE(decays_decoupled(options_with("Adam", R"("adam_w_mode": false)").optimizer));
  CHECK(decays_decoupled(options_with("AdamW", R"("adam_w_mode": false)").optimizer));
}

TEST_CASE("what an optimizer does not have here is refused by name", "[rankd]") {
  CHECK_THROWS_WITH(options_with("OneBitAdam", R"("amsgrad": true)"),
                    Catch::Contains("optimizer.params.amsgrad"));
  CHECK_THROWS_WITH(options_with("SGD", R"("nesterov": true)"),
                    Catch::Contains("needs momentum > 0"));
}

TEST_CASE("a decay ends with the run unless it says when, and no warm-up is the shortest",
          "[rankd]") {
  CHECK(options_of(R"("scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}})")
            .schedule.warmup.warmup_num_steps == 1);
  const auto total = [](const std::string& params) {
    return options_of(R"("train": {"steps": 40}, "scheduler": {"type": "WarmupCosineLR",
                   "params": {)" +
                      params + "}}")
        .schedule.warmup_cosine.total_num_steps;
  };
  CHECK(total("") == 40);
  CHECK(total(R"("total_num_steps": 90)") == 90);
  Config endless = config_of(R"("train": {"steps": 1}, "scheduler": {"type": "WarmupDecayLR"})");
  endless.train.steps.reset();
  const EngineOptions options = engine_options(endless, Gpt2Config{}, 2);
  CHECK_THROWS_WITH(StepRules({.schedule = options.schedule}), Catch::Contains("total_num_steps"));
}

// What a run of these keys would be, refused where this build cannot make it.
EngineOptions runnable(const std::string& more) {
  const Config config = config_of(R"("train": {"steps": 5}, )" + more);
  require_runnable(config);
  return engine_options(config, Gpt2Config{}, 2);
}

TEST_CASE("what cannot be shared is said of the key that asks for it", "[rankd]") {
  const auto of = [](const char* keys) {  // of a model that a folder has, say
    return engine_options(config_of(keys), Gpt2Config{.n_head = 2, .n_embd = 64}, 4);
  };
  CHECK_THROWS_WITH(of(R"("tensor_parallel": {"autotp_size": 4})"),
                    Catch::StartsWith("tensor_parallel.autotp_size: 4 ranks"));
  CHECK_THROWS_WITH(of(R"("tensor_parallel": {"tp": {"tp_size": 4}})"),
                    Catch::StartsWith("tensor_parallel.tp.tp_size: 4 ranks"));
}

TEST_CASE("a mesh has the rings of a configuration", "[rankd]") {
  const auto mesh = [](const char* more) {
    const std::string text = fmt::format(
        R"({{"model": {{"family": "gpt2", "attn_pdrop": 0}}, "sequence_parallel_size": 4{}}})",
        more);
    return job_mesh(parse_config(text), 8, 8);
  };
  CHECK(mesh("").ring == 1);
  CHECK(mesh(R"(, "sequence_parallel_attention": "ring")").ring == 4);
  const MeshSizes both =
      mesh(R"(, "sequence_parallel_attention": "ring", "sequence_parallel_ring_size": 2)");
  CHECK(both.ring == 2);
  CHECK(both.sequence == 4);
  CHECK(both.data == 2);
}

TEST_CASE("fp16's keys make the rule that its loss scale follows", "[rankd]") {
  const EngineOptions options = runnable(
      R"("zero_optimization": {"stage": 2}, "fp16": {"enabled": true, "initial_scale_power": 9,
         "loss_scale_window": 7, "hysteresis": 3, "consecutive_hysteresis": true,
         "min_loss_scale": 4})");
  CHECK(options.dtype == DType::kF16);
  const LossScaleRule& rule = options.loss_scale;
  CHECK(rule.kind == LossScaling::kDynamic);
  CHECK(rule.options.init_scale == 512);
  CHECK(rule.options.window == 7);
  CHECK(rule.options.hysteresis == 3);
  CHECK(rule.options.consecutive_hysteresis);
  CHECK(rule.options.min_scale == 4);
  const auto least = [](const std::string& scale) {
    return runnable(R"("fp16": {"enabled": true, "min_loss_scale": )" + scale + "}")
        .loss_scale.options.min_scale;
  };
  CHECK(least("0.25") == 0.25);
  CHECK(least("0") == 0x1p-126);
  CHECK(rule.options.at_minimum == AtMinimumScale::kThrow);
  const LossScaleRule plain = runnable(R"("fp16": {"enabled": true, "hysteresis": 3})").loss_scale;
  CHECK(plain.options.hysteresis == 1);
  CHECK(plain.options.init_scale == 65536);
  CHECK(plain.options.at_minimum == AtMinimumScale::kStay);
  const LossScaleRule fixed = runnable(R"("fp16": {"enabled": true, "loss_scale": 96})").loss_scale;
  CHECK(fixed.kind == LossScaling::kFixed);
  CHECK(first_state(fixed).scale == 96);
  CHECK(runnable(R"("bf16": {"enabled": true})").loss_scale.kind == LossScaling::kNone);
}

TEST_CASE("amp's levels are policies of number formats", "[rankd]") {
  const auto amp = [](const char* level, const char* more = "") {
    return runnable(fmt::format(R"("amp": {{"enabled": true, "opt_level": "{}"{}}})", level, more));
  };
  const EngineOptions o0 = amp("O0");
  CHECK((o0.dtype == DType::kF32 && !o0.operands && o0.loss_scale.kind == LossScaling::kNone));
  const EngineOptions o1 = amp("O1");
  CHECK((o1.dtype == DType::kF32 && o1.operands == DType::kF16));
  CHECK((o1.loss_scale.kind == LossScaling::kDynamic && o1.loss_scale.options.window == 2000 &&
         o1.loss_scale.options.max_scale == 0x1p24));
  const EngineOptions o2 = amp("O2", R"(, "loss_scale": "dynamic", "max_loss_scale": 256)");
  CHECK((o2.dtype == DType::kF16 && !o2.operands && o2.loss_scale.options.max_scale == 256));
  const LossScaleRule fixed = amp("O2", R"(, "loss_scale": 128.0)").loss_scale;
  CHECK((fixed.kind == LossScaling::kFixed && fixed.options.init_scale == 128));
  const EngineOptions o3 = amp("O3");
  CHECK((o3.dtype == DType::kF16 && !o3.operands && o3.zero.state.masters == Masters::kWeights));
  CHECK(o3.zero.wire.slice_dtype == DType::kF16);
  CHECK((o3.loss_scale.kind == LossScaling::kFixed && o3.loss_scale.options.init_scale == 1));
  CHECK(o2.zero.state.masters == Masters::kFp32);
  const LossScaleRule scaled = amp("O3", R"(, "loss_scale": 64)").loss_scale;
  CHECK((scaled.kind == LossScaling::kFixed && scaled.options.init_scale == 64));
}

TEST_CASE("autocast narrows products, and the gradients of modules that bear it", "[rankd]") {
  const EngineOptions bf16 = runnable(R"("torch_autocast": {"enabled": true})");
  CHECK((bf16.dtype == DType::kF32 && bf16.operands == DType::kBF16));
  CHECK(bf16.loss_scale.kind == LossScaling::kNone);
  CHECK(bf16.zero.wire.dtype == DType::kBF16);
  CHECK(bf16.zero.wire.modules == std::vector{ModuleKind::kOther, ModuleKind::kLinear});
  const EngineOptions fp16 = runnable(
      R"("torch_autocast": {"enabled": true, "dtype": "float16",
          "lower_precision_safe_modules": ["torch.nn.Embedding"]})");
  CHECK(fp16.operands == DType::kF16);
  CHECK(fp16.loss_scale.kind == LossScaling::kDynamic);
  CHECK(fp16.zero.wire.modules == std::vector{ModuleKind::kOther, ModuleKind::kEmbedding});
  const EngineOptions fp32 = runnable(R"("torch_autocast": {"enabled": true, "dtype": "float32"})");
  CHECK((!fp32.operands && !fp32.zero.wire.dtype));
}

TEST_CASE("weights without fp32 masters are their own, and gradients of their type", "[rankd]") {
  const auto zero = [](const std::string& keys) {
    return runnable(R"("zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 2, )" +
                    keys);
  };
  const EngineOptions plain = zero(R"("bf16": {"enabled": true})");
  CHECK(plain.zero.state.masters == Masters::kFp32);
  CHECK(plain.zero.wire.slice_dtype == DType::kF32);
  const EngineOptions bf16 =
      zero(R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true})");
  CHECK(bf16.zero.state.masters == Masters::kWeights);
  CHECK(bf16.zero.wire.slice_dtype == DType::kBF16);
  CHECK(bf16.optimizer.moment_dtype == MomentType::kFp32);
  CHECK(!bf16.zero.state.rounding_seed);
  const EngineOptions all = zero(
      R"("bf16": {"enabled": true, "bf16_master_weights_and_grads": true,
                  "bf16_optimizer_states": true},
         "data_types": {"grad_accum_dtype": "fp32"})");
  CHECK(all.optimizer.moment_dtype == MomentType::kBf16);
  CHECK(all.zero.wire.slice_dtype == DType::kF32);
  const EngineOptions fp16 =
      zero(R"("fp16": {"enabled": true, "fp16_master_weights_and_grads": true})");
  CHECK(fp16.zero.state.masters == Masters::kWeights);
  CHECK(fp16.zero.wire.slice_dtype == DType::kF16);
}

TEST_CASE("weights in bf16 are rounded at random by the seed of the run", "[rankd]") {
  const Config config = parse_config(
      R"({"model": {"family": "gpt2"}, "data": {"train": ["/t.txt"]}, "train_batch_size": 4,
         "optimizer": {"type": "AdamW", "weight_rounding": "stochastic"},
         "bf16": {"enabled": true, "bf16_master_weights_and_grads": true},
         "zero_optimization": {"stage": 1}, "train": {"steps": 2, "seed": 77}})");
  require_runnable(config);
  CHECK(engine_options(config, Gpt2Config{}, 2).zero.state.rounding_seed == 77U);
}

TEST_CASE("gradients travel and add up in the dtypes that the file names", "[rankd]") {
  CHECK(!runnable(R"("bf16": {"enabled": true})").zero.wire.dtype);
  const EngineOptions named = runnable(
      R"("bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
         "communication_data_type": "fp32", "data_types": {"grad_accum_dtype": "bf16"})");
  CHECK(named.zero.wire.dtype == DType::kF32);
  CHECK(named.zero.wire.modules.empty());
  CHECK(named.zero.wire.slice_dtype == DType::kBF16);
  CHECK(runnable(R"("gradient_predivide_factor": 4.0)").gradient_factor == 0.5);
  CHECK(
      runnable(R"("gradient_predivide_factor": 4.0, "prescale_gradients": true)").gradient_factor ==
      1);
}

TEST_CASE("every key of aio reaches asynchronous I/O, and what no queue holds is refused by key",
          "[train]") {
  const auto options = [](const std::string& keys) {
    return io_options(config_of(R"("aio": {)" + keys + "}").aio, "/nvme");
  };
  const IoOptions plain = options("");
  CHECK(plain.block_size == 1048576);
  CHECK(plain.queue_depth == 8);
  CHECK(plain.thread_count == 1);
  CHECK(!plain.single_submit);
  CHECK(plain.overlap_events);
  CHECK(!plain.use_gds);
  CHECK(!plain.engine);
  CHECK(plain.folder == "/nvme");
  const IoOptions all = options(R"("block_size": 262144, "queue_depth": 32, "thread_count": 3,
      "single_submit": "true", "overlap_events": "false", "use_gds": true)");
  CHECK(all.block_size == 262144);
  CHECK(all.queue_depth == 32);
  CHECK(all.thread_count == 3);
  CHECK(all.single_submit);
  CHECK(!all.overlap_events);
  CHECK(all.use_gds);
  CHECK(options(R"("intra_op_parallelism": 4)").thread_count == 4);
  CHECK_THROWS_WITH(options(R"("block_size": 1000)"),
                    Catch::Contains("aio.block_size: 1000, expected a multiple of 4096"));
  CHECK_THROWS_WITH(options(R"("block_size": 1073745920)"),
                    Catch::Contains("aio.block_size: 1073745920, expected at most 1073741824"));
  CHECK_THROWS_WITH(options(R"("queue_depth": 4294967297)"),
                    Catch::Contains("aio.queue_depth: 4294967297, expected at most 32768"));
  CHECK_THROWS_WITH(options(R"("thread_count": 1025)"),
                    Catch::Contains("aio.thread_count: 1025, expected at most 1024"));
}

TEST_CASE("a run's swap files are named after its directory, and no other run's are", "[train]") {
  const auto owner_in = [](const std::string& run_dir) {
    JobPlan plan;
    plan.run_dir = run_dir;
    plan.rank = 2;
    plan.world_size = 8;
    plan.epoch = 5;
    return swap_owner(plan);
  };
  const SwapOwner night = owner_in("/runs/night run");
  CHECK(night.job.starts_with("night-run-"));
  CHECK(night.job.size() == std::string("night-run-01234567").size());
  CHECK(night.rank == 2);
  CHECK(night.world == 8);
  CHECK(night.epoch == 5);
  CHECK(owner_in("/runs/night run").job == night.job);
  CHECK(owner_in("/others/night run").job != night.job);
  CHECK(owner_in("/" + std::string(200, 'x')).job.size() < kSwapJobBytes);
}

TEST_CASE("every key of eigenvalue reaches who looks for them", "[train]") {
  const auto asked = [](const std::string& keys) {
    return engine_options(config_of(R"("eigenvalue": {)" + keys + "}"), Gpt2Config{}, 1)
        .eigenvalues;
  };
  const std::string on = R"("enabled": true, "layer_name": "transformer.h", "layer_num": 5)";
  CHECK_FALSE(asked(R"("enabled": false, "layer_num": 5)").has_value());
  const EigenvalueOptions plain = asked(on).value();
  CHECK((plain.list == "transformer.h" && plain.blocks == 5 && plain.every == 1));
  CHECK((plain.rules.most == 100 && plain.rules.tolerance == 0.01 &&
         plain.rules.stability == 1e-6 && !plain.verbose));
  const EigenvalueOptions all = asked(on + R"(, "verbose": true, "max_iter": 7, "tol": 0.5,
      "stability": 0.25, "gas_boundary_resolution": 3)")
                                    .value();
  CHECK((all.verbose && all.every == 3));
  CHECK((all.rules.most == 7 && all.rules.tolerance == 0.5 && all.rules.stability == 0.25));
  CHECK_THROWS_WITH(asked(R"("enabled": true, "layer_num": 5)"),
                    Catch::Contains("eigenvalue.layer_name: \"bert.encoder.layer\""));
}

TEST_CASE("neighbours of ZeRO++ and MiCS are the store's and the mesh's", "[train]") {
  const auto zero = [](const std::string& keys) {
    return config_of(R"("bf16": {"enabled": true}, "zero_optimization": {)" + keys + "}");
  };
  const auto policy = [&](const std::string& keys) {
    return engine_options(zero(keys), Gpt2Config{}, 4).zero.placement.policy;
  };
  const std::string all = R"("zero_quantized_weights": true, "zero_quantized_gradients": true,
                             "zero_hpz_partition_size": 2)";
  const ZeroPlusPlus on = policy(R"("stage": 3, )" + all).plus_plus;
  CHECK((on.quantized_weights && on.quantized_gradients && on.secondary_weights));
  CHECK_FALSE(policy(R"("stage": 2, )" + all).plus_plus.is_on());
  CHECK_FALSE(policy(R"("stage": 3, "zero_hpz_partition_size": 1)").plus_plus.is_on());
  CHECK(policy(R"("stage": 3, "mics_shard_size": 2)").shard_over == Axis::kShard);
  CHECK(policy(R"("stage": 3, "mics_shard_size": -1)").shard_over == Axis::kData);
  const auto near = [&](const std::string& keys) { return job_mesh(zero(keys), 4, 4).shard; };
  CHECK(near(R"("stage": 3, )" + all) == 2);
  CHECK(near(R"("stage": 3, "zero_quantized_gradients": true)") == 4);
  CHECK(near(R"("stage": 3)") == 1);
  // Codes travel, whatever autocast would send.
  const std::string autocast =
      R"("torch_autocast": {"enabled": true}, "zero_optimization": {"stage": 3, )";
  CHECK(options_of(autocast + R"("zero_quantized_weights": true})").zero.wire.dtype);
  CHECK_FALSE(options_of(autocast + R"("zero_quantized_gradients": true})").zero.wire.dtype);
}

}  // namespace
}  // namespace ds
