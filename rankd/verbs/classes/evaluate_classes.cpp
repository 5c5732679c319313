#include "rankd/verbs/classes/evaluate_classes.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/tasks/clock.h"
#include "core/text/device_name.h"
#include "core/values/index.h"
#include "rankd/verbs/classes/score_report.h"
#include "rankd/verbs/terminal/json_values.h"
#include "train/batches/labelled_source.h"
#include "train/samples/labelled_data.h"

namespace ds {
namespace {

// What is read of records: as the run of the model has it, unless an option says otherwise.
DataSection data_section(const EvalArgs& args, FileSystem& files, const ModelSource& source) {
  DataSection data;
  if (source.data) {
    data.classification = source.data->classification;
    data.token_classification = source.data->token_classification;
    data.sequence_length = source.data->sequence_length;
  }
  data.tokenizer =
      args.tokenizer.empty() ? source.tokenizer : tokenizer_place(files, args.tokenizer);
  if (args.length) data.sequence_length = *args.length;
  const int64_t positions = dimensions(source.model).positions;
  if (data.sequence_length.value_or(positions) > positions) {
    throw UsageError(fmt::format("eval: --seq-length {}: expected 1 to {}, the model's positions",
                                 *data.sequence_length, positions));
  }
  if (scores_tokens(source.model)) {
    if (args.text_pair) {
      throw UsageError(
          fmt::format("eval: --text-pair: {} scores classes of words, not of pairs of "
                      "texts",
                      hf_model_class(source.model)));
    }
    auto fields = data.token_classification.value_or(TokenClassificationConfig());
    fields.tokens = args.field.value_or(fields.tokens);
    fields.labels = args.label.value_or(fields.labels);
    data.token_classification = fields;
  } else {
    auto fields = data.classification.value_or(ClassificationConfig());
    fields.text = args.field.value_or(fields.text);
    fields.label = args.label.value_or(fields.label);
    if (args.text_pair) fields.text_pair = args.text_pair;
    data.classification = fields;
  }
  return data;
}

struct Figures {
  std::vector<std::string> notes;  // of the data
  std::unique_ptr<ScoreReport> scores;
  double losses = 0;  // the sum
  int64_t samples = 0;
  int64_t tokens = 0;   // padding left out
  int64_t longest = 0;  // sample, in tokens
  double seconds = 0;

  double loss() const { return losses / static_cast<double>(scores->scored()); }
};

// The numbers of a sample, without the one that follows in its SampleSet.
std::vector<int32_t> numbers_of(const SampleSet& samples, int64_t sample) {
  std::vector<int32_t> numbers(to_size(samples.sequence_length()) + 1);
  samples.read(sample, numbers);
  numbers.pop_back();
  return numbers;
}

// Samples of `length` tokens or fewer, `rows` of them together.
class ClassScorer {
 public:
  ClassScorer(const ModelSource& source, DType dtype, const ModelPlace& place)
      : loaded_(source, {.begin = 0, .end = dimensions(source.model).layers + 2}, dtype, place),
        scored_(scored_samples(source.model)),
        write_(sample_writer(scored_)),
        content_{.key_ranges = !is_causal(source.model)} {}

  void add(const SampleSet& samples, int64_t batch, Figures& figures) const {
    for (int64_t first = 0; first < samples.size(); first += batch) {
      std::vector<std::vector<int32_t>> records;
      int64_t length = 1;
      for (int64_t i = first; i < std::min(first + batch, samples.size()); ++i) {
        std::vector<int32_t> numbers = numbers_of(samples, i);
        const int64_t size = sample_size(numbers, scored_);
        figures.tokens += size;
        length = std::max(length, size);
        records.push_back(std::move(numbers));
      }
      figures.samples += std::ssize(records);
      figures.longest = std::max(figures.longest, length);
      figures.losses += score(records, length, figures.scores.get());
    }
  }

  // What a batch of the longest sample takes is all that is wanted of it.
  void rehearse(const SampleSet& samples, int64_t rows) const {
    int64_t length = 1;
    for (int64_t i = 0; i < samples.size(); ++i) {
      length = std::max(length, sample_size(numbers_of(samples, i), scored_));
    }
    const BatchSpec spec = spec_of(rows, length);
    losses(spec, Tensor::empty({spec.bytes()}, DType::kU8, stream()), rows, length, nullptr);
  }

 private:
  Stream& stream() const { return loaded_.stream(); }
  BatchSpec spec_of(int64_t rows, int64_t length) const {
    return loaded_.stage().batch_spec({.samples = rows,
                                       .length = length,
                                       .whole_length = length,
                                       .content = content_,
                                       .mode = RunMode::kEval});
  }

  // The sum of the losses of those that have a class.
  double score(std::span<const std::vector<int32_t>> records, int64_t length,
               ScoreObserver* observer) const {
    const int64_t rows = narrow<int64_t>(records.size());
    const BatchSpec spec = spec_of(rows, length);
    const MicroBatch host = host_batch(spec);
    for (int64_t row = 0; row < rows; ++row) {
      write_(records[to_size(row)], sample_fields(host, row, rows));
    }
    Tensor block = Tensor::empty({spec.bytes()}, DType::kU8, stream());
    stream().copy(host.block().address(), block.address(), block.bytes());
    const Tensor made = losses(spec, std::move(block), rows, length, observer);
    std::vector<float> values(to_size(made.numel()));
    stream().copy(made.address(), values.data(), made.bytes());
    stream().synchronize();
    double sum = 0;
    for (const float value : values) sum += value;
    return sum;
  }

  Tensor losses(const BatchSpec& spec, Tensor block, int64_t rows, int64_t length,
                ScoreObserver* observer) const {
    Context context = loaded_.context(nullptr);
    context.scores = observer;
    return loaded_.stage().losses(
        context,
        {.batch = MicroBatch(spec, std::move(block)), .rows = {.batch = rows, .length = length}},
        1.0F);
  }

  mutable LoadedStage loaded_;
  const ScoredSamples scored_;
  const WriteSample write_;
  const BatchContent content_;
};

std::string to_json(const Figures& f, const ModelSource& source) {
  Value out = Value::object();
  out.set("source", Value::string(source.place));
  out.set("loss", Value::number(f.loss()));
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"samples", f.samples},
                                                              {"scored", f.scores->scored()},
                                                              {"tokens", f.tokens},
                                                              {"longest_sample", f.longest}}) {
    out.set(key, Value::integer(value));
  }
  f.scores->add_to(out);
  out.set("notes", strings_value(f.notes));
  out.set("seconds", Value::number(f.seconds));
  return to_compact_json(out) + "\n";
}

std::string to_text(const Figures& f, const ModelSource& source) {
  std::string text = fmt::format("loss           {:.6f} {}\n{}", f.loss(), loss_unit(source.model),
                                 f.scores->text(f.samples));
  text += fmt::format("tokens         {}\nseconds        {:.1f}\n", f.tokens, f.seconds);
  for (const std::string& note : f.notes) text += fmt::format("note: {}\n", note);
  return text;
}

void require_unused(const EvalArgs& args, const ModelConfig& model) {
  if (!args.stride) return;
  throw UsageError(
      fmt::format("eval: --stride is for models that predict tokens, and {} scores "
                  "classes; leave it out",
                  hf_model_class(model)));
}

}  // namespace

std::string evaluate_classes(const EvalArgs& args, FileSystem& files, const ModelSource& source) {
  const auto start = std::chrono::steady_clock::now();
  require_unused(args, source.model);
  const DataSection data = data_section(args, files, source);
  require_labelled(data, source.model);
  const LabelledReader reader(data, source.model, files, "--seq-length");
  const std::shared_ptr<const TokenSource> records = reader.open(args.data);
  const SampleSet samples({records}, reader.numbers(), INT32_MAX);
  const DType dtype = parse_dtype(args.dtype);
  const ModelDevice device(device_named(args.device), args.threads, [&](const ModelPlace& meta) {
    ClassScorer(rehearsal_of(source), dtype, meta).rehearse(samples, args.batch);
  });
  Figures figures;
  figures.scores = make_score_report(source.model);
  figures.notes = records->notes();
  ClassScorer(source, dtype, device.place()).add(samples, args.batch, figures);
  if (!std::isfinite(figures.losses)) {
    throw ValidationError(
        fmt::format("eval: the loss is {}; the weights are damaged or too large for --dtype {}",
                    figures.losses, args.dtype));
  }
  figures.seconds = seconds_since(start);
  return args.json ? to_json(figures, source) : to_text(figures, source);
}

}  // namespace ds
