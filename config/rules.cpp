#include "config/rules.h"

namespace ds {

namespace {

class Rules {
 public:
  Rules(const Config& config, const Origins& origins, Problems& problems)
      : c_(config), origins_(origins), problems_(problems) {}

  void precision();

 private:
  Origin at(std::string_view path) const {
    const auto found = origins_.find(path);
    return found == origins_.end() ? Origin{} : found->second;
  }
  void error(Basis basis, const std::string& path, std::string message) {
    problems_.error(basis, path, at(path), std::move(message));
  }

  const Config& c_;
  const Origins& origins_;
  Problems& problems_;
};

void Rules::precision() {
  if (c_.fp16.enabled && c_.bf16.enabled) {
    error(Basis::kDeepSpeed, "bf16.enabled",
          "fp16 and bf16 cannot be simultaneously enabled; turn one off");
  }
}

}  // namespace

void check_rules(const Config& config, const Origins& origins, Problems& problems) {
  Rules rules(config, origins, problems);
  rules.precision();
}

void note_inert_keys(const Config&, const Origins&, Problems&) {}

}  // namespace ds
