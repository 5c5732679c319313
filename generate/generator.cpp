#include "generate/generator.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/text/utf8.h"
#include "core/values/index.h"
#include "generate/continuation.h"

namespace ds {
namespace {

// What is printed of texts that grow at the same time: the first that has not ended at once, those
// behind it when their turn comes.
class InOrder {
 public:
  InOrder(size_t texts, const GenerationOutput& output) : waiting_(texts), output_(output) {}

  void add(int64_t text, const std::string& piece) {
    if (text == first_) {
      print(piece);
    } else {
      nth(waiting_, text).pieces += piece;
    }
  }

  void end(int64_t text) {
    nth(waiting_, text).has_ended = true;
    while (first_ < narrow<int64_t>(waiting_.size()) && nth(waiting_, first_).has_ended) {
      nth(waiting_, first_).pieces.clear();
      ++first_;
      if (first_ < narrow<int64_t>(waiting_.size())) print(nth(waiting_, first_).pieces);
    }
  }

 private:
  struct Waiting {
    std::string pieces;
    bool has_ended = false;
  };
  void print(const std::string& piece) const {
    if (!piece.empty()) output_.print(piece);
  }

  std::vector<Waiting> waiting_;
  const GenerationOutput& output_;
  int64_t first_ = 0;
};

class Generator {
 public:
  Generator(NextTokens& model, const GenerationTask& task, const GenerateArgs& args,
            const GenerationOutput& output)
      : model_(model),
        task_(task),
        args_(args),
        output_(output),
        texts_(narrow<int64_t>(task.prompts.size()) * args.num_samples),
        printed_(to_size(texts_), output),
        slots_(std::min(to_size(model.slots()), to_size(texts_))) {}

  void run() {
    for (const std::string& line : task_.settings.notes) output_.note(line);
    for (int slot = 0; slot < narrow<int>(slots_.size()); ++slot) begin(slot);
    while (!asked_.empty()) {
      const int slot = asked_.front();
      asked_.pop_front();
      Continuation& text = *nth(slots_, slot);
      const std::string piece = text.take(model_.answer());
      output_.progress();
      if (!args_.json) printed_.add(nth(numbers_, slot), piece);
      if (!text.has_ended()) {
        ask(slot);
      } else {
        printed_.add(nth(numbers_, slot), args_.json ? text.to_json() : "\n");
        printed_.end(nth(numbers_, slot));
        begin(slot);
      }
    }
  }

 private:
  void begin(int slot) {
    if (next_text_ == texts_) return;
    const int64_t text = next_text_++;
    const Continuation::Place place{.prompt = text / args_.num_samples,
                                    .sample = text % args_.num_samples};
    if (!args_.json && !args_.chat.is_chat)
      printed_.add(text, as_utf8(nth(task_.prompts, place.prompt).record.text));
    nth(numbers_, slot) = text;
    nth(slots_, slot) = std::make_unique<Continuation>(task_, args_, place);
    ask(slot);
  }

  void ask(int slot) {
    Continuation& text = *nth(slots_, slot);
    const Continuation::Input input = text.next_input();
    if (input.is_shortened && !std::exchange(told_, true)) {
      output_.note(fmt::format(
          "note: the text has reached the model's {} positions; it goes on from its last {} tokens",
          task_.dims.positions, input.tokens.size()));
    }
    model_.ask({.slot = slot,
                .fresh = input.fresh,
                .prompt = text.place().prompt,
                .sample = text.place().sample,
                .drawn = text.drawn(),
                .tokens = input.tokens});
    asked_.push_back(slot);
  }

  NextTokens& model_;
  const GenerationTask& task_;
  const GenerateArgs& args_;
  const GenerationOutput& output_;
  const int64_t texts_;  // the samples of the first prompt, then those of the next
  InOrder printed_;
  std::vector<std::unique_ptr<Continuation>> slots_;
  std::vector<int64_t> numbers_ = std::vector<int64_t>(slots_.size());  // of their texts
  std::deque<int> asked_;  // slots, the oldest request first
  int64_t next_text_ = 0;
  bool told_ = false;
};

}  // namespace

void generate(NextTokens& model, const GenerationTask& task, const GenerateArgs& args,
              const GenerationOutput& output) {
  Generator(model, task, args, output).run();
}

}  // namespace ds
