// Tests the filter that is suggested in place of one in the notation of another program.
#include "client/commands/filter_meant.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "client/commands/filter_words.h"

namespace ampd::client {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ConvertFilter, SignsAndValuesOfOtherPrograms_BecomeTerms) {
  const std::pair<const char*, const char*> kFilters[] = {
      {"state=running,queued", "state=running OR state=queued"},
      {"state=running|queued", "state=running OR state=queued"},
      {"state!=succeeded,cancelled", "state!=succeeded AND state!=cancelled"},
      {"state in (Running, Pending)", "state=running OR state=queued"},
      {"state not in (running,queued)", "state!=running AND state!=queued"},
      {"state notin (running)", "state!=running"},
      {"state is not running", "state!=running"},
      {"state<>running", "state!=running"},
      {"state!running", "state!=running"},
      {"state:running", "state=running"},
      {"state = \"running\"", "state=running"},
      {"state='running'", "state=running"},
      {"state=\"running", "state=running"},
      {"name~^tin.*", "name=tin*"},
      {"name=~tin", "name=*tin*"},
      {"name!~tin$", "name!=*tin"},
      {"name LIKE 'tin%'", "name=tin*"},
      {"name not like 'tin%'", "name!=tin*"},
      {"name contains tin", "name=*tin*"},
      {"name startswith tin", "name=tin*"},
      {"name endswith ny and state is not running", "name=*ny AND state!=running"},
      {"name=tiny labels.note='two words'", "name=tiny AND labels.note=\"two words\""}};
  for (const auto& [foreign, own] : kFilters) {
    EXPECT_EQ(ConvertFilter(foreign).filter, own) << foreign;
  }
}

TEST(ConvertFilter, ColumnsAndStatesOfOtherPrograms_BecomeThoseOfAmpd) {
  const std::pair<const char*, const char*> kFilters[] = {
      {"status=Completed", "state=succeeded"},
      {"status.phase!=Running", "state!=running"},
      {"state=RUNING", "state=running"},
      {"state=finished", "state=succeeded OR state=failed OR state=cancelled"},
      {"Name=tiny", "name=tiny"},
      {"metadata.name=tiny", "name=tiny"},
      {"job=tiny", "name=tiny"},
      {"job=j-abc", "id=j-abc*"},
      {"user=ann", "owner=*:ann"},
      {"owner=token:ci", "owner=token:ci"},
      {"node=gpu-7", "worker=gpu-7"},
      {"team=vision", "labels.team=vision"},
      {"label.team=vision", "labels.team=vision"},
      {"labels[team]=vision", "labels.team=vision"},
      {"metadata.labels.team in (a,b)", "labels.team=a OR labels.team=b"},
      {"labels.team", "labels.team=*"},
      {"running", "state=running"},
      {"tiny", "name=tiny"},
      {"tin*", "name=tin*"}};
  for (const auto& [foreign, own] : kFilters) {
    EXPECT_EQ(ConvertFilter(foreign).filter, own) << foreign;
  }
}

TEST(ConvertFilter, JoiningWords_KeepTheirMeaning) {
  const std::pair<const char*, const char*> kFilters[] = {
      {"a=1 && b=2 || c=3", "labels.a=1 AND labels.b=2 OR labels.c=3"},
      {"a=1,b=2", "labels.a=1 AND labels.b=2"},
      {"(a=1 or b=2) and c=3", "(labels.a=1 OR labels.b=2) AND labels.c=3"},
      {"state=running,queued and name=x", "(state=running OR state=queued) AND name=x"},
      {"!state=running", "NOT state=running"},
      {"not (state=running,queued)", "NOT (state=running OR state=queued)"},
      {"not state in (running,queued) and name=x", "NOT (state=running OR state=queued) AND name=x"}};
  for (const auto& [foreign, own] : kFilters) {
    EXPECT_EQ(ConvertFilter(foreign).filter, own) << foreign;
  }
}

TEST(ConvertFilter, APartWithoutMeaning_MakesNoFilter) {
  for (const char* text :
       {"", "*", "=running", "state", "state=", "state=nonsense", "name=a)", "(name=a", "name=tiny big", "AND",
        "label=vision", "name=~a(b|c)", "name=it's\"x", "priority=5", "age<1d"}) {
    EXPECT_THAT(ConvertFilter(text).filter, IsEmpty()) << text;
  }
  EXPECT_THAT(ConvertFilter(std::string(1000, '(') + "name=a").filter, IsEmpty());
  EXPECT_THAT(ConvertFilter(std::string(1000, '!') + "name=a").filter, IsEmpty());
}

TEST(AdviceOnFilter, AFieldThatFiltersLack_IsNamed) {
  EXPECT_THAT(AdviceOnFilter("priority>3", false), HasSubstr("ampctl job list --sort priority;"));
  EXPECT_THAT(AdviceOnFilter("loss=0.5", false), HasSubstr("ampctl job list --sort loss;"));
  EXPECT_THAT(AdviceOnFilter("created>2026-01-01", false), HasSubstr("filters have no times"));
  EXPECT_THAT(AdviceOnFilter("name>a", false), HasSubstr("and only = and !="));
}

TEST(AdviceOnFilter, OfAValidFilter_IsAboutWhatMatchesHardlyAnyJob) {
  EXPECT_EQ(AdviceOnFilter("id=j-abc", true), "did you mean: --filter 'id=j-abc*'");
  EXPECT_EQ(AdviceOnFilter("owner=ann", true), "did you mean: --filter 'owner=*:ann'");
  EXPECT_THAT(AdviceOnFilter("owner=me", true), EndsWith(kAboutOwner));
  EXPECT_EQ(AdviceOnFilter("state==RUNNING and name=x", true), "");
  EXPECT_EQ(AdviceOnFilter("id=j-abcdefghijklmnop", true), "");
}

TEST(StatesNamed, OnlyWordsForStates_HaveOne) {
  EXPECT_EQ(StatesNamed("PD"), "queued");
  EXPECT_EQ(StatesNamed("Running"), "running");
  EXPECT_EQ(StatesNamed("runing"), "");
  EXPECT_EQ(StatesMeant("runing"), "running");
  EXPECT_EQ(StatesMeant("RUN*"), "run*");
}

}  // namespace
}  // namespace ampd::client
