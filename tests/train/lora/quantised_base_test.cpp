// Adapters beside a base that is kept as codes (tests/golden/lora): steps of peft's over
// bitsandbytes' weights, on every mesh; what a rank keeps; what tags and resumes make of it.
#include "tests/train/lora/adapted.h"

namespace ds {
namespace {

using namespace testing;
using Catch::Approx;

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
    check_on({.ranks = 4, .stage = 1, .micro_steps = 2, .sizes = {.pipe = 2}}, "");
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
    for (rapidjson::SizeType step = 0; step < wanted.Size(); ++step) {
      CAPTURE(name, step);
      CHECK(got.losses[step] == Approx(wanted[step].GetDouble()).epsilon(0.02));
    }
  }
}

}  // namespace
}  // namespace ds
