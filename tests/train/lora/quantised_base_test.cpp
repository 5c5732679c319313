// Adapters beside a base that is kept as codes (tests/golden/lora): steps of peft's over
// bitsandbytes' weights, on every mesh; what a rank keeps; what tags and resumes make of it.
#include "tests/train/lora/adapted.h"
#include "tests/train/offload/offload_settings.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

const std::vector<std::string> kQuantised{"llama_nf4",      "llama_int8", "llama_fp8",
                                          "llama_nf4_dora", "gpt2_nf4",   "gpt2_int8"};

// The section of a case, whose scales are in fp32.
std::string base_of(const std::string& name) {
  const size_t at = name.find('_') + 1;
  const std::string format = name.substr(at, name.find('_', at) - at);
  return fmt::format(R"(, "base_format": "{}", "double_quantization": {})", format,
                     format == "nf4" ? "false" : "true");
}

TEST_CASE("adapters train over a quantised base as peft's do, at every stage of ZeRO", "[train]") {
  for (const std::string& name : kQuantised) {
    for (const Shares& share :
         {Shares{}, Shares{.micro_steps = 2}, Shares{.ranks = 2}, Shares{.ranks = 2, .stage = 1},
          Shares{.ranks = 2, .stage = 2}, Shares{.ranks = 2, .stage = 3}}) {
      CAPTURE(name, share.ranks, share.stage, share.micro_steps);
      Adapted adapted(name, "", base_of(name));
      check_steps(adapted, name, adapted.train(share));
    }
  }
}

TEST_CASE("a quantised base goes through stages, sequences, offload and recomputation", "[train]") {
  for (const std::string& name : kQuantised) {
    const auto check_on = [&](const Shares& share, const std::string& more) {
      CAPTURE(name, more, share.stage);
      Adapted adapted(name, more, base_of(name));
      check_steps(adapted, name, adapted.train(share));
    };
    check_on({.ranks = 2, .sizes = {.pipe = 2}}, "");
    check_on({.ranks = 2, .micro_steps = 2, .sizes = {.pipe = 2}}, "");
    check_on({.ranks = 2, .sizes = {.sequence = 2}}, "");
    check_on({.ranks = 2, .stage = 3},
             R"(, "zero_optimization": {"offload_param": {"device": "cpu"},
                                        "offload_optimizer": {"device": "cpu"}})");
    check_on({.ranks = 1, .stage = 3},
             R"(, "zero_optimization": {"offload_param": {"device": "cpu"}})");
    check_on({.ranks = 1}, R"(, "activation_checkpointing": {"enabled": true})");
  }
}

// Blocks are those of what a rank has: where it has some of the inputs, they are others.
TEST_CASE("a quantised base is shared over tensor ranks", "[train]") {
  for (const std::string& name : kQuantised) {
    Adapted adapted(name, "", base_of(name));
    const Got got = adapted.train({.ranks = 2, .sizes = {.tensor = 2}});
    const auto& wanted = adapted.run().golden[name.c_str()]["losses"];
    CAPTURE(name);
    CHECK(got.losses.front() == Approx(wanted[0].GetDouble()).epsilon(0.01));
    CHECK(got.losses.back() == Approx(wanted[4].GetDouble()).epsilon(0.1));
  }
}

const std::vector<kernels::BlockCode> kCodes{
    {.table = kernels::BlockTable::kNf4, .scale = kernels::BlockScale::kFp8, .block = 64},
    {.table = kernels::BlockTable::kInt8, .scale = kernels::BlockScale::kFp32, .block = 256},
    {.table = kernels::BlockTable::kFp8, .scale = kernels::BlockScale::kFp32, .block = 512}};

AdapterSpec small_adapters() { return {.rank = 3, .alpha = 6, .start = AdapterStart::kRandom}; }

EngineOptions options_with(const Setting& setting, const kernels::BlockCode& code) {
  EngineOptions options = options_of(setting);
  options.zero.layout.base_code = code;
  return options;
}

Outcome run(const Setting& setting, const kernels::BlockCode& code, int64_t until = 3) {
  MemoryFileSystem disk;
  return train(setting, options_with(setting, code), disk, until);
}

TEST_CASE("a quantised base has the same bits at every stage, on every tier, and computed again",
          "[train]") {
  for (const kernels::BlockCode& code : kCodes) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Setting plain{
          .ranks = 2, .dtype = dtype, .micro_steps = 2, .adapters = small_adapters()};
      const Outcome expected = run(plain, code);
      std::vector<Setting> settings{plain};
      for (int stage = 1; stage <= 3; ++stage) {
        settings.push_back(plain);
        settings.back().stage = stage;
      }
      const Setting sharded = settings.back();
      for (const Setting& offloaded : offloads_of_both(sharded)) settings.push_back(offloaded);
      settings.push_back(sharded);
      settings.back().recomputed.recompute.part = RecomputedPart::kBlock;
      for (const Setting& setting : settings) {
        CAPTURE(words_of(setting), code.block, name_of(dtype));
        const Outcome got = run(setting, code);
        CHECK(got.state == expected.state);
        CHECK(got.losses == expected.losses);
        check_plan(setting, options_with(setting, code), got);
      }
    }
  }
}

TEST_CASE("what ranks send of a quantised base is its codes", "[train]") {
  for (const kernels::BlockCode& code : kCodes) {
    const Setting setting{.ranks = 2, .stage = 3, .adapters = small_adapters()};
    const Moved moved = moved_by(setting, options_with(setting, code)).front();
    check_as_planned(moved);
    const Moved whole = moved_by(setting, options_of(setting)).front();
    const auto sent = [](const Moved& one) { return one.traffic.at("data").at("all_gather"); };
    CHECK(sent(moved).wire_bytes < sent(whole).wire_bytes);
  }
}

TEST_CASE("a run over a quantised base goes on anywhere", "[train]") {
  for (const kernels::BlockCode& code : kCodes) {
    const auto train_to = [&](const Setting& setting, FileSystem& disk, int64_t until) {
      return train(setting, options_with(setting, code), disk, until).state;
    };
    const AdapterSpec spec = small_adapters();
    const Setting first{.ranks = 2, .stage = 3, .params = Tier::kHost, .adapters = spec};
    MemoryFileSystem whole_disk, disk;
    const auto whole = train_to(first, whole_disk, 4);
    train_to(first, disk, 2);
    CHECK(train_to(first, disk, 4) == whole);
    for (const Setting& other :
         {Setting{.ranks = 1, .adapters = spec}, Setting{.ranks = 3, .stage = 2, .adapters = spec},
          Setting{.ranks = 2, .pipe = 2, .adapters = spec}}) {
      CAPTURE(other.ranks, other.pipe, code.block);
      CHECK(train_to(other, disk, 4) == whole);
    }
  }
}

TEST_CASE("a plan of a quantised base counts its bits", "[train]") {
  const Setting setting{.adapters = small_adapters()};
  const EngineOptions options = options_with(setting, kCodes.front());
  const RunPlan plan = dry_run(options, {}, {}), plain = dry_run(options_of(setting), {}, {});
  int64_t packed = 0;
  for (const ParamSpec& spec : specs_of_model(options.model, DType::kF32)) {
    if (!spec.trains && spec.packs) packed += spec.shape.numel();
  }
  CHECK(plan.packed() == packed);
  CHECK(plain.packed() == 0);
  CHECK(plan_text(plan, options).find("of them nf4, 4.125 bits each)") != std::string::npos);
  const auto parameters = [](const RunPlan& of) {
    const MemoryUsage& device = nth(of.of_rank(0).memory, Tier::kDevice);
    return static_cast<int64_t>(
        device.tag_bytes_at_peak.at(static_cast<size_t>(MemoryTag::kParameters)));
  };
  // Matrices of this model fill whole blocks.
  CHECK(parameters(plain) - parameters(plan) == packed * 4 - packed * 33 / 64);
}

}  // namespace
}  // namespace ds
