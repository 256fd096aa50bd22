#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rubato/cluster/cluster_spec.h"
#include "rubato/cluster/curve.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kSpecHeader[] =
    "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n";

TEST(ClusterSpecTest, ReadsTheCommonForm) {
  const auto spec = ParseClusterCsv(std::string(kSpecHeader) + "2,32,8,64,256", "n64g8.csv");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->gpus(), 512);
  EXPECT_EQ(spec->racks, 2);
  EXPECT_EQ(spec->nodes.size(), 64u);
  EXPECT_EQ(spec->nodes[32].rack, 1);
  EXPECT_EQ(spec->nodes[63].first_gpu, 504);
  EXPECT_EQ(spec->nodes[0].cpus, 64);
}

TEST(ClusterSpecTest, GpuTypesBecomePoolsOfNeighbours) {
  const auto spec = ParseClusterShorthand("n2g8:A100+n4g4:T4+n1g8:A100");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->pools.size(), 2u);
  EXPECT_EQ(spec->pools[0].gpus, 24);
  EXPECT_EQ(spec->pools[1].gpu_type, "T4");
  EXPECT_EQ(spec->pools[1].first_gpu, 24);
  EXPECT_EQ(spec->pools[1].nodes, 4);
}

TEST(ClusterSpecTest, SaysWhereASpecIsWrong) {
  struct Case {
    std::string text, message;
  };
  for (const Case& c : {
           Case{"", "spec.csv:1: the file is empty"},
           Case{"num_switch\n1", "spec.csv:1: no column \"num_node_p_switch\""},
           Case{std::string(kSpecHeader) + "1,x,8,1,1", "spec.csv:2: num_node_p_switch is \"x\""},
           Case{std::string(kSpecHeader) + "1,0,8,1,1", "spec.csv:2: num_node_p_switch is 0"},
           Case{std::string(kSpecHeader) + "1,1,8", "spec.csv:2: 3 fields where the header has 5"},
           Case{kSpecHeader, "the cluster has no nodes"},
           Case{
               "num_switch,num_node_p_switch,num_gpu_p_node,num_socket_p_node\n1,2,8,2\n1,1,8,16\n",
               "spec.csv:3: nodes with 16 sockets for 8 GPUs"},
           Case{"num_switch,\"num_node_p_switch\n1,2\n", "spec.csv:1: a quote is opened"},
       }) {
    const auto spec = ParseClusterCsv(c.text, "spec.csv");
    ASSERT_FALSE(spec.ok()) << c.text;
    EXPECT_THAT(spec.status().message(), HasSubstr(c.message));
  }
  for (const char* text : {"n4h8", "n2g8:", "n2g8:+n1g8:A100", "n2g8 :A100", "n2g8: A100", "n 2g8",
                           "n+2g8", "n2g-8", "n2g8+", "n99999999999g8"}) {
    EXPECT_THAT(ParseClusterShorthand(text).status().message(),
                HasSubstr("should read like n16g8 or n16g8:A100"))
        << text;
  }
}

TEST(CurveTest, FallsAndGapsAreNotUseful) {
  const Curve curve({{1, 46.9}, {2, 37.6}, {4, 56.3}, {8, 23.2}, {16, 0}});
  EXPECT_EQ(curve.points().size(), 4u);
  EXPECT_THAT(curve.useful(), ElementsAre(CurvePoint{1, 46.9}, CurvePoint{4, 56.3}));
  EXPECT_EQ(curve.peak_gpus(), 4);
  EXPECT_EQ(curve.max_gpus(), 8);
  EXPECT_EQ(curve.UsefulAtMost(3), 1);
  EXPECT_EQ(curve.LegalAtMost(3), 2);
  EXPECT_EQ(curve.LegalAtLeast(0), 1);
  EXPECT_EQ(curve.LegalAtLeast(4), 4);
  EXPECT_EQ(curve.LegalAtLeast(5), 8);
  EXPECT_EQ(curve.LegalAtLeast(9), 0);
  EXPECT_EQ(curve.UsefulAfter(1), 4);
  EXPECT_EQ(curve.UsefulAfter(4), 4);
  EXPECT_FALSE(curve.Legal(16));
  EXPECT_FALSE(curve.Legal(0));
  EXPECT_FALSE(curve.Legal(-1));
}

TEST(CurveBookTest, ReadsProfilesWithHoles) {
  CurveBook book;
  ASSERT_TRUE(
      book.AddCsv("global_batch_size,1,2,4\n32,3.0,,nan\n64,1.5,2.5,0\n", "ds2.csv", "ds2", "A100")
          .ok());
  EXPECT_EQ(book.Find("ds2", 32, "A100")->max_gpus(), 1);
  EXPECT_EQ(book.Find("ds2", 64, "A100")->Rate(2), 2.5);
  EXPECT_EQ(book.Find("ds2", 64, "T4"), nullptr);
  EXPECT_EQ(book.Known("A100"), "ds2: 32 64");
  EXPECT_TRUE(book.Knows("A100"));
  EXPECT_FALSE(book.Knows("T4"));
}

// Four on one node do 4 a second, over a rack half of that; eight over a rack were never tried.
TEST(CurveBookTest, ReadsHowFastAJobIsWhenItsGpusAreFarApart) {
  CurveBook book;
  const absl::Status read = book.AddCsv(
      "global_batch_size,span,1,2,4,8\n"
      "64,,1,2,4,8\n"
      "64,node,,2,4,8\n"
      "64,rack,,1.5,2,\n",
      "m.csv", "m", "A100");
  ASSERT_TRUE(read.ok()) << read;
  const Curve& curve = *book.Find("m", 64, "A100");
  EXPECT_EQ(curve.Rate(1, Span::kCluster), 1);
  EXPECT_EQ(curve.Rate(4, Span::kNode), 4);
  EXPECT_EQ(curve.Rate(4, Span::kRack), 2);
  EXPECT_EQ(curve.Rate(4, Span::kCluster), 2);  // Never faster than nearer together.
  EXPECT_EQ(curve.Rate(8, Span::kSocket), 8);
  EXPECT_GT(curve.Rate(8, Span::kRack), 1.5);  // From the model.
  EXPECT_LT(curve.Rate(8, Span::kRack), 4);
  EXPECT_EQ(curve.Rate(16, Span::kRack), 0);
}

TEST(CurveBookTest, EstimatesCountsThatWereNotMeasuredWithCaution) {
  CurveBook book;
  ASSERT_TRUE(book.AddCsv("global_batch_size,1,2,4,8\n64,1,1.9,?,?\n", "m.csv", "m", "A100").ok());
  const Curve& curve = *book.Find("m", 64, "A100");
  EXPECT_EQ(curve.Rate(2), 1.9);
  EXPECT_GT(curve.Rate(4), 2.2);
  EXPECT_LT(curve.Rate(4), 3.8);
  EXPECT_GT(curve.Rate(8), curve.Rate(4));
}

TEST(CurveBookTest, SaysWhereAProfileIsWrong) {
  CurveBook book;
  EXPECT_THAT(book.AddCsv("global_batch_size,one\n1,1", "p.csv", "m", "t").message(),
              HasSubstr("p.csv:1: column \"one\""));
  EXPECT_THAT(book.AddCsv("global_batch_size,1\n8,fast", "p.csv", "m", "t").message(),
              HasSubstr("p.csv:2: 1 is \"fast\""));
  EXPECT_THAT(book.AddCsv("global_batch_size,1\n8,nan", "p.csv", "m", "t").message(),
              HasSubstr("p.csv:2: no GPU count"));
  EXPECT_THAT(book.AddCsv("global_batch_size,span,1\n8,galaxy,1", "p.csv", "m", "t").message(),
              HasSubstr("p.csv:2: span should be"));
  EXPECT_THAT(book.AddCsv("global_batch_size,span,2\n8,rack,1", "p.csv", "m", "t").message(),
              HasSubstr("p.csv:2: this batch size has no row without a span"));
  EXPECT_THAT(book.AddCsv("global_batch_size,1\n8,1\n9,1\n8,2", "p.csv", "m", "t").message(),
              HasSubstr("p.csv:4: batch size 8 appears twice"));
  EXPECT_THAT(book.AddCsv("global_batch_size,2,02\n8,1,1", "p.csv", "m", "t").message(),
              HasSubstr("p.csv:1: columns \"2\" and \"02\""));
  EXPECT_THAT(book.AddCsv("global_batch_size,1,2\n8,?,?", "p.csv", "m", "t").message(),
              HasSubstr("p.csv:2: no GPU count"));
}

}  // namespace
}  // namespace rubato
