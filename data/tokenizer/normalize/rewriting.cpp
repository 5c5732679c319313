#include "data/tokenizer/normalize/rewriting.h"

namespace ds {
namespace {

class Rewriting final : public Normalizer {
 public:
  explicit Rewriting(std::shared_ptr<const PieceRewrite> rewrite) : rewrite_(std::move(rewrite)) {}
  std::string apply(std::string_view text, PatternWork&) const override {
    return written(text, true);
  }
  std::string apply_further_on(std::string_view text, PatternWork&) const override {
    return written(text, false);
  }
  std::string apply_behind_cut(std::string_view text, PatternWork&) const override {
    return written(text, false);
  }
  bool may_be_cut(CutPlaces::Kind places) const override { return rewrite_->may_be_cut(places); }

 private:
  std::string written(std::string_view text, bool begins) const {
    if (text.empty()) return "";
    return rewrite_->apply(text, begins).value_or(std::string(text));
  }

  std::shared_ptr<const PieceRewrite> rewrite_;
};

}  // namespace

std::unique_ptr<Normalizer> rewriting(std::shared_ptr<const PieceRewrite> rewrite) {
  return std::make_unique<Rewriting>(std::move(rewrite));
}

}  // namespace ds
