// Gates as golden files ask for them, and how they are printed (tests/golden/moe_gate.txt).
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <string>

#include "core/status/error.h"
#include "model/parallel/moe_gate.h"
#include "tests/support/arguments.h"

namespace ds::testing {

struct GateCommand {
  explicit GateCommand(const std::string& command) {
    const Arguments args(command);
    logits = args.list<float>("logits");
    experts = args.integer("experts");
    used = args.list<uint8_t>("used");
    options = {.rule = args.verb == "top1"   ? GateRule::kTop1
                       : args.verb == "top2" ? GateRule::kTop2
                                             : GateRule::kTopK,
               .k = static_cast<int>(args.integer("k", 1)),
               .capacity_factor = args.number("factor", 1.0),
               .min_capacity = args.integer("min", 0),
               .drop = args.has("keep_all") ? TokenDrop::kNever : TokenDrop::kOverCapacity,
               .policy = args.has("position") ? DropPolicy::kPosition : DropPolicy::kProbability,
               .used_tokens = used};
  }
  GateCommand(const GateCommand&) = delete;  // its options name its own list of tokens
  GateCommand& operator=(const GateCommand&) = delete;

  int64_t tokens() const { return static_cast<int64_t>(logits.size()) / experts; }

  std::vector<float> logits;
  int64_t experts = 0;
  std::vector<uint8_t> used;
  GateOptions options;
};

inline std::string text_of(const Gate& gate) {
  std::string out = fmt::format("loss {:.4f}, capacity {}, counts {}\n", gate.aux_loss,
                                gate.capacity, fmt::join(gate.expert_counts, " "));
  for (int64_t t = 0; t < gate.tokens; ++t) {
    out += fmt::format("token {}:", t);
    for (int j = 0; j < gate.k; ++j) {
      const size_t at = static_cast<size_t>(j * gate.tokens + t);
      out += gate.expert[at] < 0 ? " dropped"
                                 : fmt::format(" expert {} slot {} x {:.3f}", gate.expert[at],
                                               gate.slot[at], gate.weight[at]);
    }
    out += '\n';
  }
  return out;
}

// The answer to a command by whoever makes gates.
inline std::string gate_answer(const std::string& command,
                               const std::function<Gate(const GateCommand&)>& gate_of) {
  const GateCommand asked(command);
  try {
    return text_of(gate_of(asked));
  } catch (const ConfigError& error) {
    return fmt::format("error: {}\n", error.what());
  }
}

}  // namespace ds::testing
