// How near to their tolerances the errors come that tests measure: what a run on another device
// says of tolerances that were chosen without it.
#pragma once

#include <map>
#include <string>

namespace ds::testing {

// Confined to the thread that runs the tests.
class Margins {
 public:
  struct Margin {
    double error = 0, tolerance = 0;
  };

  // What is noted from now on is of this file.
  void begin(const std::string& file) { file_ = file; }
  // Keeps it where no other one of the file came as near.
  void note(double error, double tolerance) {
    const auto [found, is_first] = nearest_.try_emplace(file_, Margin{error, tolerance});
    Margin& kept = found->second;
    if (is_first || error * kept.tolerance > kept.error * tolerance) kept = {error, tolerance};
  }
  const std::map<std::string, Margin>& nearest() const { return nearest_; }

 private:
  std::string file_;
  std::map<std::string, Margin> nearest_;
};
inline Margins& margins() {
  static Margins margins;
  return margins;
}

}  // namespace ds::testing
