#include "train/watch/comms_table.h"

#include "tests/support/catch.h"

namespace ds {

TEST_CASE("rates of calls are DeepSpeed's", "[train]") {
  // 1e9 bytes in 2 s are 4 Gbit/s.
  constexpr int64_t kBytes = 1'000'000'000;
  const auto rate = [&](CommOp op) { return rate_of(op, kBytes, 4, 2.0); };
  CHECK(rate(CommOp::kAllReduce).algorithm == Approx(8));
  CHECK(rate(CommOp::kAllReduce).bus == Approx(6));
  CHECK(rate(CommOp::kAllGather).algorithm == Approx(4));
  CHECK(rate(CommOp::kReduceScatter).bus == Approx(3));
  CHECK(rate(CommOp::kBroadcast).bus == Approx(4));
  CHECK(message_bytes(CommOp::kAllGather, 64, 4) == 16);
  CHECK(message_bytes(CommOp::kAllReduce, 64, 4) == 64);
}

TEST_CASE("the table has a line for each operation and size, and bytes by formula", "[train]") {
  CommsTable table;
  for (const double seconds : {0.001, 0.003}) {
    table.add({"all_reduce", CommOp::kAllReduce, 4096, 4, seconds});
  }
  table.add({"all_gather", CommOp::kAllGather, 8192, 4, 0.002});
  CHECK(table.wire_bytes() ==
        2 * wire_bytes(CommOp::kAllReduce, 4, 4096) + wire_bytes(CommOp::kAllGather, 4, 8192));
  CHECK(table.summary() ==
        "Comm. Op            Message Size        Count               Total Latency(ms)   "
        "Avg Latency(ms)     tput_avg (Gbps)     busbw_avg (Gbps)    \n"
        "all_gather\n"
        "                    2.0 KB              1                   2.00                "
        "2.00                0.03                0.02                \n"
        "all_reduce\n"
        "                    4.0 KB              2                   4.00                "
        "2.00                0.04                0.03                \n");
}

TEST_CASE("whoever enters last waits for nobody, and is named", "[train]") {
  std::vector<CommsTable> ranks(2);
  for (int i = 0; i < 10; ++i) {
    ranks[0].add({"barrier", CommOp::kBarrier, 0, 2, 0.010});
    ranks[1].add({"barrier", CommOp::kBarrier, 0, 2, 0.002});
  }
  const std::vector<std::string> hosts{"node-1", "node-2"};
  const std::vector<CommsTable> sent{CommsTable::from_text(ranks[0].to_text()),
                                     CommsTable::from_text(ranks[1].to_text())};
  const std::string text = CommsTable::stragglers(sent, 0, hosts);
  CHECK(text.find("                    0B                  10                  20.00               "
                  "80.00               2.00                8.00") != std::string::npos);
  CHECK(text.find("the others waited for rank 1 on node-2, which waited 0.00 ms itself") !=
        std::string::npos);
}

TEST_CASE("of very many calls an even part is kept, the same on every rank", "[train]") {
  CommsTable one, other;
  for (int i = 0; i < 100'000; ++i) {
    one.add({"send", CommOp::kSend, 64, 2, 0.001 * i});
    other.add({"send", CommOp::kSend, 64, 2, 0.001 * i + 1});
  }
  CHECK(one.to_text().size() < 20'000);
  const std::vector<CommsTable> ranks{one, other};
  const std::string text = CommsTable::stragglers(ranks, 1, std::vector<std::string>{"a", "b"});
  CHECK(text.find("1000.00") != std::string::npos);  // each waited a second
  CHECK(one.summary().find("100000") != std::string::npos);
}

}  // namespace ds
