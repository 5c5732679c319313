#include "rankd/verbs/classes/score_report.h"

#include <fmt/format.h>

#include "core/values/index.h"
#include "rankd/verbs/classes/value_figures.h"
#include "train/evaluate/class_counts.h"
#include "train/samples/labelled_data.h"

namespace ds {
namespace {

Value number_or_null(std::optional<double> number) {
  return number ? Value::number(*number) : Value();
}

std::string number_or_dash(std::optional<double> number) {
  return number ? fmt::format("{:.6f}", *number) : "-";
}

// One class of each text or token.
class ClassReport final : public ScoreReport {
 public:
  explicit ClassReport(const ModelConfig& model)
      : labels_(model.classifier->labels), of_tokens_(scores_tokens(model)) {}

  void on_scores(Stream& stream, const Tensor& scores, const Tensor& targets,
                 const Tensor& values) override {
    counts_.on_scores(stream, scores, targets, values);
  }
  int64_t scored() const override { return counts_.counts()[0]; }
  void add_to(Value& object) const override {
    const std::vector<int64_t> counts = counts_.counts();
    object.set("accuracy", Value::number(share_of_right(counts)));
    object.set("right", Value::integer(counts[1]));
    std::vector<Value> classes;
    for (size_t i = 0; i < labels_.size(); ++i) {
      const ClassTally tally = counts_.tally(i);
      Value& one = classes.emplace_back(Value::object());
      one.set("label", Value::string(labels_[i]));
      one.set("scored", Value::integer(tally.scored));
      one.set("right", Value::integer(tally.right));
      one.set("predicted", Value::integer(tally.predicted));
    }
    object.set("classes", Value::list(std::move(classes)));
  }
  std::string text(int64_t samples) const override {
    const std::vector<int64_t> counts = counts_.counts();
    std::string out = fmt::format(
        "accuracy       {:.6f}, {} of {} {}\n", share_of_right(counts), counts[1], counts[0],
        of_tokens_ ? fmt::format("tokens in {} sentences", samples) : "texts");
    for (size_t i = 0; i < labels_.size(); ++i) {
      const ClassTally tally = counts_.tally(i);
      out += fmt::format("class          {}: {} of {} right, predicted {} times\n", labels_[i],
                         tally.right, tally.scored, tally.predicted);
    }
    return out;
  }

 private:
  const std::vector<std::string> labels_;
  const bool of_tokens_;
  ClassCounts counts_;
};

// What both kinds of values have in common.
class ValueReport : public ScoreReport {
 public:
  explicit ValueReport(const ModelConfig& model) : labels_(model.classifier->labels) {}

  void on_scores(Stream& stream, const Tensor& scores, const Tensor& targets,
                 const Tensor& values) override {
    scored_.on_scores(stream, scores, targets, values);
  }
  int64_t scored() const override { return scored_.rows(); }

 protected:
  const std::vector<std::string> labels_;
  ScoredValues scored_;
};

class NumberReport final : public ValueReport {
 public:
  using ValueReport::ValueReport;

  void add_to(Value& object) const override {
    std::vector<Value> numbers;
    for (const Nearness& near : each_label()) {
      Value& one = numbers.emplace_back(Value::object());
      one.set("label", Value::string(near.label));
      one.set("mean_absolute_error", Value::number(near.error));
      one.set("pearson", number_or_null(near.pearson));
      one.set("spearman", number_or_null(near.spearman));
    }
    object.set("numbers", Value::list(std::move(numbers)));
  }
  std::string text(int64_t /*samples*/) const override {
    std::string out = fmt::format("texts          {}\n", scored_.rows());
    for (const Nearness& near : each_label()) {
      out += fmt::format("number         {}: mean absolute error {:.6f}, Pearson {}, Spearman {}\n",
                         near.label, near.error, number_or_dash(near.pearson),
                         number_or_dash(near.spearman));
    }
    return out;
  }

 private:
  // How near the scores of a label come.
  struct Nearness {
    std::string label;
    double error = 0;
    std::optional<double> pearson{}, spearman{};
  };
  std::vector<Nearness> each_label() const {
    std::vector<Nearness> out;
    for (size_t i = 0; i < labels_.size(); ++i) {
      const std::vector<double> scores = scored_.scores_of(i), values = scored_.values_of(i);
      out.push_back({.label = labels_[i],
                     .error = mean_absolute_error(scores, values),
                     .pearson = pearson(scores, values),
                     .spearman = spearman(scores, values)});
    }
    return out;
  }
};

class HoldReport final : public ValueReport {
 public:
  using ValueReport::ValueReport;

  void add_to(Value& object) const override {
    const Summary summary = summarize();
    object.set("f1_micro", Value::number(summary.micro));
    object.set("f1_macro", Value::number(summary.macro));
    object.set("exact", Value::number(share_of_exact(scored_, labels_.size())));
    std::vector<Value> classes;
    for (size_t i = 0; i < labels_.size(); ++i) {
      const HoldTally& tally = summary.tallies[i];
      Value& one = classes.emplace_back(Value::object());
      one.set("label", Value::string(labels_[i]));
      one.set("holds", Value::integer(tally.holds));
      one.set("right", Value::integer(tally.right));
      one.set("predicted", Value::integer(tally.predicted));
      one.set("f1", Value::number(tally.f1()));
    }
    object.set("classes", Value::list(std::move(classes)));
  }
  std::string text(int64_t /*samples*/) const override {
    const Summary summary = summarize();
    std::string out = fmt::format(
        "F1             {:.6f} of all classes together, {:.6f} in the mean over them\n"
        "exact          {:.6f} of {} texts have every class right\n",
        summary.micro, summary.macro, share_of_exact(scored_, labels_.size()), scored_.rows());
    for (size_t i = 0; i < labels_.size(); ++i) {
      const HoldTally& tally = summary.tallies[i];
      out += fmt::format("class          {}: {} of {} found, predicted {} times, F1 {:.6f}\n",
                         labels_[i], tally.right, tally.holds, tally.predicted, tally.f1());
    }
    return out;
  }

 private:
  struct Summary {
    std::vector<HoldTally> tallies;
    double micro = 0, macro = 0;
  };
  Summary summarize() const {
    Summary out;
    HoldTally all;
    for (size_t i = 0; i < labels_.size(); ++i) {
      out.tallies.push_back(hold_tally(scored_.scores_of(i), scored_.values_of(i)));
      all += out.tallies.back();
      out.macro += out.tallies.back().f1() / static_cast<double>(labels_.size());
    }
    out.micro = all.f1();
    return out;
  }
};

}  // namespace

std::unique_ptr<ScoreReport> make_score_report(const ModelConfig& model) {
  switch (model.classifier.value().problem) {
    case ClassifierProblem::kOneClass:
      return std::make_unique<ClassReport>(model);
    case ClassifierProblem::kNumbers:
      return std::make_unique<NumberReport>(model);
    case ClassifierProblem::kSeveralClasses:
      return std::make_unique<HoldReport>(model);
  }
  throw InternalError("eval: scores of no kind");
}

std::string_view loss_unit(const ModelConfig& model) {
  return model.classifier.value().problem == ClassifierProblem::kNumbers ? "mean squared difference"
                                                                         : "nats";
}

}  // namespace ds
