package config
import ("testing";"strings";"time")
func TestZZ(t *testing.T){
 for _,n:=range []int{1000,4000,10000} {
 for _,s:=range []string{"[","{a: ","- ","? ","a: ","&a ","!t ","- - [{a: ", "a: |\n ", "[a,", "\"\\x", "x: y\n"} {
  l := &loader{Loaded: Loaded{Origins: map[string]Origin{}, Path: "config.yaml", Config: Config{Home: "/h"}}}
  l.defaults()
  b:=time.Now()
  l.decode([]byte(strings.Repeat(s,n)))
  if d:=time.Since(b); d>100*time.Millisecond {t.Log(n,s,d, len(l.problems))}
 }}
}
