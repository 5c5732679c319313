#include "generate/continuation.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>

#include "core/tasks/clock.h"
#include "core/values/index.h"

namespace ds {
namespace {

void write_text(rapidjson::Writer<rapidjson::StringBuffer>& out, const char* key,
                const std::string& text) {
  out.Key(key);
  out.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
}

}  // namespace

Continuation::Continuation(const GenerationTask& task, const GenerateArgs& args, int64_t prompt)
    : task_(task),
      args_(args),
      prompt_(prompt),
      shown_(args.stops),
      all_(nth(task.prompts, prompt).ids),
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

std::string Continuation::take(int32_t token) {
  ++drawn_;
  std::string now;
  if (std::ranges::find(task_.eos, token) != task_.eos.end()) {
    end_ = End::kEos;
  } else {
    all_.push_back(token);
    now = shown_.add(texts_.add(token));
    if (shown_.has_stopped()) {
      end_ = End::kStop;
    } else if (drawn_ == args_.max_tokens) {
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
  const Prompt& prompt = nth(task_.prompts, prompt_);
  const std::span<const int32_t> ids = std::span(all_).subspan(prompt.ids.size());
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> out(buffer);
  out.StartObject();
  write_text(out, "prompt", as_utf8(prompt.text));
  write_text(out, "text", text_);
  out.Key("prompt_tokens");
  out.Uint64(prompt.ids.size());
  out.Key("tokens");
  out.Uint64(ids.size());
  out.Key("ids");
  out.StartArray();
  for (const int32_t id : ids) out.Int(id);
  out.EndArray();
  out.Key("finish_reason");
  out.String(name_of(end_));
  out.Key("seconds");
  out.Double(seconds_);
  out.Key("tokens_per_s");
  out.Double(static_cast<double>(ids.size()) / seconds_);
  out.EndObject();
  return std::string(buffer.GetString(), buffer.GetSize()) + "\n";
}

}  // namespace ds
