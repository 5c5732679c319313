// Rules that join several keys (config-notes sections 4 to 8): what contradicts, what needs what.
// Each rule reports at the key that is easiest to change. Keys without effect are config/inert.h.
#pragma once

#include <string>
#include <string_view>

#include "config/config.h"
#include "config/field_reader.h"
#include "config/reader/problem.h"

namespace ds {

void check_rules(const Config& config, const Origins& origins, Problems& problems);

// When the host's update of offloaded state begins, and what it waits for: "begins after the norm
// is known: gradient_clipping is 1". Of a configuration that offloads it.
std::string host_update_begins(const Config& config);

namespace detail {

// What every rule needs: the values, what was given, where to complain.
class RuleContext {
 public:
  RuleContext(const Config& read, const Origins& origins, Problems& problems)
      : config(read), origins_(origins), problems_(problems) {}

  bool given(std::string_view path) const { return origins_.contains(path); }
  // Kept by DeepSpeed when it reads the file.
  void refuse(const std::string& path, std::string message) const {
    problems_.error(Basis::kDeepSpeed, path, at(path), std::move(message));
  }
  // DeepSpeed notices later or not at all.
  void refuse_early(const std::string& path, std::string message) const {
    problems_.error(Basis::kOwn, path, at(path), std::move(message));
  }
  void note(const std::string& path, std::string message) const {
    problems_.note(path, at(path), std::move(message));
  }
  // Older releases of DeepSpeed took what its newest one refuses.
  void note_as_older(const std::string& path, std::string message) const {
    problems_.note(path, at(path), std::move(message), Basis::kDeepSpeed);
  }

  const Config& config;

 private:
  Origin at(std::string_view path) const;

  const Origins& origins_;
  Problems& problems_;
};

// Its update is made weight by weight, of gradients that others sum: not of whole parameters, nor
// by an exchange of its own.
bool is_elementwise(const OptimizerConfig& optimizer);
bool is_one_bit(const OptimizerConfig& optimizer);  // exchanges itself what others sum

void check_engine_rules(const RuleContext& context);   // precision, ZeRO, optimizer, scheduler
void check_feature_rules(const RuleContext& context);  // model, data and everything optional
void check_sharing_rules(const RuleContext& context);  // sequences, layers and stages
void supervised_rules(const RuleContext& context);     // examples of which a part is learnt
void lora_rules(const RuleContext& context);           // low-rank adapters
void preference_rules(const RuleContext& context);     // pairs of answers
void distillation_rules(const RuleContext& context);   // a teacher

}  // namespace detail

}  // namespace ds
