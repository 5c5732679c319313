#include "generate/continuation.h"

#include <algorithm>

#include "core/tasks/clock.h"
#include "core/values/index.h"
#include "generate/text_json.h"

namespace ds {
Continuation::Continuation(const GenerationTask& task, const GenerateArgs& args, Place place)
    : task_(task),
      args_(args),
      place_(place),
      shown_(args.stops),
      all_(nth(task.prompts, place.prompt).ids),
      texts_(*task.tokenizer, all_) {}

const char* Continuation::name_of(End end) {
  switch (end) {
    case End::kEos:
      return "eos";
    case End::kStop:
      return "stop";
    case End::kLength:
      return "length";
    case End::kNone:
      break;
  }
  throw InternalError("generate: a text that has not ended");
}

Continuation::Input Continuation::next_input() {
  const std::span<const int32_t> all(all_);
  const int64_t positions = task_.dims.positions;
  Input input{.tokens = all.last(1)};
  if (seen_ == 0) {
    input = {.tokens = all, .fresh = true};
  } else if (seen_ == positions) {
    seen_ = 0;
    input = {.tokens = all.last(to_size(std::max<int64_t>(1, positions / 2))),
             .fresh = true,
             .is_shortened = true};
  }
  seen_ += narrow<int64_t>(input.tokens.size());
  return input;
}

std::string Continuation::take(const DrawnToken& token) {
  ++drawn_;
  std::string now;
  if (std::ranges::find(task_.eos, token.id) != task_.eos.end()) {
    end_ = End::kEos;
  } else {
    all_.push_back(token.id);
    if (args_.logprobs) tokens_.push_back(token);
    now = shown_.add(texts_.add(token.id));
    if (shown_.has_stopped()) {
      end_ = End::kStop;
    } else if (drawn_ == task_.settings.max_tokens) {
      end_ = End::kLength;
    }
  }
  if (has_ended()) {
    now += shown_.add(texts_.finish());
    now += shown_.finish();
    seconds_ = seconds_since(begun_);
  }
  text_ += now;
  return now;
}

std::string Continuation::to_json() const {
  const Prompt& prompt = nth(task_.prompts, place_.prompt);
  return text_json({.prompt = prompt,
                    .text = text_,
                    .ids = std::span(all_).subspan(prompt.ids.size()),
                    .finish_reason = name_of(end_),
                    .sample = place_.sample,
                    .seconds = seconds_,
                    .tokens = tokens_},
                   task_, args_);
}

}  // namespace ds
