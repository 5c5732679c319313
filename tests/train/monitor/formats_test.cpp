#include <bit>
#include <cstring>
#include <fstream>

#include "core/files/crc32.h"
#include "core/files/file.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"
#include "train/monitor/comet_sink.h"
#include "train/monitor/csv_sink.h"
#include "train/monitor/tensorboard_sink.h"
#include "train/monitor/wandb_sink.h"
#include "train/monitor/wire_message.h"
#include "train/monitor/zip_archive.h"

namespace ds {
namespace {

std::string text_of(const std::string& path) { return RealFileSystem().read_text(path, 1 << 24); }

std::string only_file(const std::string& folder) {
  const auto entries = RealFileSystem().list(folder);
  REQUIRE(entries.size() == 1);
  return folder + "/" + entries.front().name;
}

template <class Integer>
Integer little_endian(std::string_view bytes, size_t at) {
  Integer value = 0;
  for (size_t i = sizeof(Integer); i-- > 0;) {
    value = static_cast<Integer>((value << 8) | static_cast<unsigned char>(bytes.at(at + i)));
  }
  return value;
}

// The records of a TensorBoard file, each with both of its checksums looked at.
std::vector<std::string> tf_records(std::string_view file) {
  const auto unmasked = [](uint32_t crc) {
    crc -= 0xA282EAD8U;
    return (crc >> 17) | (crc << 15);
  };
  std::vector<std::string> out;
  while (!file.empty()) {
    const auto length = static_cast<size_t>(little_endian<uint64_t>(file, 0));
    CHECK(unmasked(little_endian<uint32_t>(file, 8)) == crc32c(file.substr(0, 8)));
    out.emplace_back(file.substr(12, length));
    CHECK(unmasked(little_endian<uint32_t>(file, 12 + length)) == crc32c(out.back()));
    file.remove_prefix(12 + length + 4);
  }
  return out;
}

// The records of a wandb file, put together again of their pieces.
std::vector<std::string> wandb_records(std::string_view file) {
  REQUIRE(file.substr(0, 7) == std::string_view(":W&B\xe1\xbe\0", 7));
  std::vector<std::string> out;
  std::string record;
  for (size_t at = 7; at < file.size();) {
    const size_t left = 32768 - at % 32768;
    if (left < 7) {
      at += left;
      continue;
    }
    const auto length = little_endian<uint16_t>(file, at + 4);
    CHECK(little_endian<uint32_t>(file, at) == crc32(file.substr(at + 6, 1U + length)));
    record += file.substr(at + 7, length);
    const char kind = file[at + 6];
    if (kind == 1 || kind == 4) out.push_back(std::exchange(record, {}));
    at += 7U + length;
  }
  return out;
}

MonitorBatch batch_of(int64_t samples, double value) {
  return {.samples = samples,
          .wall_s = 1700000000.5,
          .events = {{"Train/Samples/lr", value}, {"Train/Samples/train_loss", 2 * value}}};
}

void write(MonitorSink& sink, int64_t from, const std::vector<MonitorBatch>& batches) {
  sink.begin(from, 1700000000.0);
  for (const MonitorBatch& batch : batches) sink.add(batch);
  sink.flush();
  sink.end(1700000009.0);
  sink.flush();
}

}  // namespace

TEST_CASE("a protobuf message has the bytes of the encoding's own examples", "[train]") {
  CHECK(WireMessage().integer(1, 150).bytes() == std::string("\x08\x96\x01", 3));
  CHECK(WireMessage().text(2, "testing").bytes() == "\x12\x07testing");
  CHECK(WireMessage().message(3, WireMessage().integer(1, 150)).bytes() ==
        std::string("\x1a\x03\x08\x96\x01", 5));
  CHECK(WireMessage().real32(2, 1.0F).bytes() == std::string("\x15\x00\x00\x80\x3f", 5));
  CHECK(WireMessage().integer(1, -1).bytes().size() == 11);
}

TEST_CASE("an event file has the version first, then where the run goes on, then a record a step",
          "[train]") {
  const testing::TemporaryDirectory home;
  TensorboardSink sink({home.path().string() + "/logs", "node-1", 42, 1700000000.7});
  write(sink, 8, {batch_of(16, 0.5), batch_of(24, 0.25)});
  CHECK(only_file(home.path().string() + "/logs") ==
        home.path().string() + "/logs/events.out.tfevents.1700000000.node-1.42.0");
  const auto records = tf_records(text_of(sink.place()));
  REQUIRE(records.size() == 4);
  CHECK(records[0].find("brain.Event:2") != std::string::npos);
  WireMessage start;
  start.real(1, 1700000000.0).integer(2, 9).message(7, WireMessage().integer(1, 1));
  CHECK(records[1] == start.bytes());
  WireMessage summary;
  summary.message(1, WireMessage().text(1, "Train/Samples/lr").real32(2, 0.25F));
  summary.message(1, WireMessage().text(1, "Train/Samples/train_loss").real32(2, 0.5F));
  WireMessage event;
  event.real(1, 1700000000.5).integer(2, 24).message(5, summary);
  CHECK(records[3] == event.bytes());
}

TEST_CASE("a CSV file goes on behind what is not trained again", "[train]") {
  const testing::TemporaryDirectory home;
  CsvSink first(home.path().string());
  write(first, 0, {batch_of(8, 0.5), batch_of(16, 0.125)});
  const std::string file = home.path().string() + "/Train_Samples_lr.csv";
  CHECK(text_of(file) == "step,lr\n8,0.5\n16,0.125\n");
  CsvSink second(home.path().string());
  write(second, 8, {batch_of(16, 0.25)});
  CHECK(text_of(file) == "step,lr\n8,0.5\n16,0.25\n");
  CHECK(text_of(home.path().string() + "/Train_Samples_train_loss.csv") ==
        "step,train_loss\n8,1\n16,0.5\n");
  CsvSink anew(home.path().string());
  write(anew, 0, {batch_of(8, 1)});
  CHECK(text_of(file) == "step,lr\n8,1\n");
}

TEST_CASE("events that do not come again lose what is trained again, too", "[train]") {
  const testing::TemporaryDirectory home;
  const std::string evaluated = home.path().string() + "/Train_Samples_eval_loss.csv";
  const MonitorBatch with_evaluation{
      .samples = 16, .events = {{"Train/Samples/lr", 0.5}, {"Train/Samples/eval_loss", 2}}};
  CsvSink first(home.path().string());
  write(first, 0, {batch_of(8, 0.5), with_evaluation});
  CHECK(text_of(evaluated) == "step,eval_loss\n16,2\n");
  std::ofstream(home.path() / "notes.csv") << "somebody's, 16\n";
  CsvSink second(home.path().string());
  write(second, 8, {batch_of(16, 0.25)});
  CHECK(text_of(evaluated) == "step,eval_loss\n");
  CHECK(text_of(home.path().string() + "/notes.csv") == "somebody's, 16\n");
}

TEST_CASE("what a file did not take is written once when it does", "[train]") {
  const testing::TemporaryDirectory home;
  CsvSink sink(home.path().string() + "/blocked/csv");
  RealFileSystem files;
  files.write_text_atomically(home.path().string() + "/blocked", "a file where a folder should be");
  sink.begin(0, 0);
  sink.add(batch_of(8, 0.5));
  CHECK_THROWS_AS(sink.flush(), Error);
  sink.add(batch_of(16, 0.25));
  CHECK_THROWS_AS(sink.flush(), Error);
  files.remove(home.path().string() + "/blocked");
  sink.flush();
  CHECK(text_of(home.path().string() + "/blocked/csv/Train_Samples_lr.csv") ==
        "step,lr\n8,0.5\n16,0.25\n");
}

TEST_CASE("records of wandb's log go over blocks in pieces", "[train]") {
  WandbLog log;
  std::string file = log.head();
  std::vector<std::string> given;
  for (const size_t bytes : {100U, 32768U - 7U - 107U - 7U - 4U, 10U, 70000U, 0U, 5U}) {
    given.emplace_back(bytes, static_cast<char>('a' + given.size()));
    file += log.framed(given.back());
  }
  CHECK(wandb_records(file) == given);
}

TEST_CASE("a run that goes on keeps its name at wandb, and begins a file", "[train]") {
  const testing::TemporaryDirectory home;
  WandbConfig config{.enabled = true, .group = "g", .team = "t", .project = "p"};
  WandbSink first({config, home.path().string(), "node-1", "{}", "1.0"});
  write(first, 0, {batch_of(8, 0.5)});
  const std::string run_id = text_of(home.path().string() + "/wandb/run_id").substr(0, 8);
  const std::string run = home.path().string() + "/wandb/offline-run-20231114_221320-" + run_id +
                          "/run-" + run_id + ".wandb";
  const auto records = wandb_records(text_of(run));
  REQUIRE(records.size() == 5);  // header, run, history, summary, exit
  for (const std::string_view said : {"train_json", "p", "t", "g", "node-1"}) {
    CHECK(records[1].find(said) != std::string::npos);
  }
  CHECK(first.upload_command() == "wandb sync " + home.path().string() + "/wandb/offline-run-*");
  WandbSink second({config, home.path().string(), "node-1", "{}", "1.0"});
  second.begin(8, 1700000100.0);
  second.flush();
  CHECK(RealFileSystem().exists(home.path().string() + "/wandb/offline-run-20231114_221500-" +
                                run_id));
  WandbSink anew({config, home.path().string(), "node-1", "{}", "1.0"});
  anew.begin(0, 1700000200.0);
  anew.flush();
  CHECK(text_of(home.path().string() + "/wandb/run_id").substr(0, 8) != run_id);
}

TEST_CASE("an experiment of Comet is a folder, and at the end an archive", "[train]") {
  const testing::TemporaryDirectory home;
  CometConfig config;
  config.project = "p";
  config.workspace = "w";
  config.experiment_name = "n";
  config.mode = CometMode::kCreate;
  config.samples_log_interval = 10;
  config.experiment_key = "0123456789abcdef0123456789abcdef";
  CometSink sink({config, home.path().string(), R"({"a": 1})"});
  write(sink, 0, {batch_of(8, 0.5), batch_of(16, 0.25), batch_of(24, 0.125)});
  const std::string folder = home.path().string() + "/comet/" + *config.experiment_key;
  const std::string messages = text_of(folder + "/messages.json");
  const auto metric = [](std::string_view value, int step) {
    return fmt::format(R"("metricName":"Train/Samples/lr","metricValue":{},"step":{})", value,
                       step);
  };
  CHECK(messages.find(metric("0.5", 8)) != std::string::npos);
  CHECK(messages.find(metric("0.25", 16)) == std::string::npos);  // 8 samples later
  CHECK(messages.find(metric("0.125", 24)) != std::string::npos);
  CHECK(messages.find(R"("paramName":"train_json","paramValue":"{\"a\": 1}")") !=
        std::string::npos);
  CHECK(messages.find(R"("key":"Name","value":"n")") != std::string::npos);
  CHECK(sink.upload_command() == "comet upload " + home.path().string() + "/comet/*.zip");
  const std::string archive = text_of(folder + ".zip");
  CHECK(archive.find(messages) != std::string::npos);
  CHECK(archive.find(R"("project_name":"p","workspace":"w")") != std::string::npos);
  CHECK(archive.find(R"("resume_strategy":"create")") != std::string::npos);
  CHECK(archive.find(R"("offline_id":"0123456789abcdef0123456789abcdef")") != std::string::npos);
  CHECK(archive.find(R"("stop_time":1700000009000)") != std::string::npos);

  CometSink goes_on({config, home.path().string(), "{}"});
  write(goes_on, 8, {batch_of(24, 0.75)});
  const std::string after = text_of(folder + "/messages.json");
  CHECK(after.find(metric("0.5", 8)) != std::string::npos);
  CHECK(after.find(metric("0.125", 24)) == std::string::npos);
  CHECK(after.find(metric("0.75", 24)) != std::string::npos);
}

TEST_CASE("an archive of two files has the bytes of the format", "[train]") {
  ZipArchive zip;
  zip.add("a", "first");
  zip.add("bc", "");
  const std::string bytes = zip.finish();
  CHECK(bytes.size() == 30 + 1 + 5 + 30 + 2 + 46 + 1 + 46 + 2 + 22);
  CHECK(little_endian<uint32_t>(bytes, 14) == crc32("first"));
  const size_t end = bytes.size() - 22;
  CHECK(little_endian<uint16_t>(bytes, end + 10) == 2);
  const auto directory = little_endian<uint32_t>(bytes, end + 16);
  CHECK(directory == 30 + 1 + 5 + 30 + 2);
  CHECK(little_endian<uint32_t>(bytes, directory + 46 + 1 + 42) == 36);  // where the second lies
}

}  // namespace ds
