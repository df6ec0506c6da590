package tool

const todoName = "todo"
