/*
 * loop_prompts.c - prompts that ask for a paragraph or more, so that a model has room to
 * lose its thread: English, Chinese, code. Written for this project.
 */
#include "eval/loops.h"

static const struct loops_prompt prompts[] = {
    {"english", "Explain to a ten-year-old why the sky is blue."},
    {"english", "Write a short story about a lighthouse keeper who finds a letter."},
    {"english",
     "List seven things to check before buying a used bicycle, with a reason "
     "for each."},
    {"english", "What are the advantages and disadvantages of living in a small town?"},
    {"english", "Describe how bread is made, from the grain to the loaf."},
    {"english", "Write a polite letter to a neighbour whose dog barks at night."},
    {"english", "Summarise the water cycle in about one hundred words."},
    {"english", "How would you plan a weekend in a city you have never visited?"},
    {"english", "Compare tea and coffee: history, taste, and effect on sleep."},
    {"english", "Tell me what a bridge engineer does on an ordinary day."},
    {"english", "Give advice to someone who wants to learn to draw."},
    {"english", "Why do leaves change colour in autumn? Answer in three paragraphs."},
    {"english", "Invent a board game for four players and explain its rules."},
    {"english", "What happens inside a computer when I press a key?"},
    {"english",
     "Write a dialogue between a baker and a customer who wants a strange cake."},
    {"english", "Explain the difference between weather and climate, with examples."},
    {"chinese", "请用简单的话解释为什么海水是咸的。"},
    {"chinese", "写一个关于老邮递员的小故事。"},
    {"chinese", "请列出七条节约用水的方法，并说明理由。"},
    {"chinese", "住在大城市有什么好处和坏处？"},
    {"chinese", "请介绍一下茶叶是怎样制成的。"},
    {"chinese", "给一位生病的同学写一封慰问信。"},
    {"chinese", "用大约一百字说明月亮为什么有圆有缺。"},
    {"chinese", "怎样安排一次三天的旅行？请写出计划。"},
    {"chinese", "请比较自行车和汽车的优缺点。"},
    {"chinese", "图书管理员一天的工作是什么样的？"},
    {"chinese", "初学者应该怎样学习书法？"},
    {"chinese", "为什么秋天树叶会变黄？请分三段回答。"},
    {"chinese", "请设计一个适合四个人玩的游戏，并说明规则。"},
    {"chinese", "请写一段卖菜的人和顾客之间的对话。"},
    {"chinese", "什么是二十四节气？请举例说明。"},
    {"chinese", "请说明天气和气候的区别。"},
    {"code", "Write a Python function that returns the n-th Fibonacci number, with a "
             "docstring and two tests."},
    {"code", "Write a C function that reverses a singly linked list, and explain it."},
    {"code",
     "Write a Python class for a bank account with deposit, withdraw and history."},
    {"code",
     "Show a JavaScript function that removes duplicates from an array, three ways."},
    {"code", "Write an SQL schema for a small library with books, members and loans."},
    {"code", "Write a shell script that renames all .jpeg files in a folder to .jpg."},
    {"code", "Implement binary search in C, with its edge cases as comments."},
    {"code",
     "Write a Python program that counts the words of a text file and prints the "
     "ten most frequent."},
    {"code", "Write a function in Python that checks whether brackets in a string are "
             "balanced."},
    {"code", "Write an HTML page with a form for name and e-mail and a little CSS."},
    {"code", "Explain what this does and improve it: for i in range(len(a)): "
             "print(a[i])"},
    {"code",
     "Write a Python generator of all permutations of a list, without itertools."},
    {"code",
     "Write a C program that reads numbers from standard input and prints their "
     "mean and median."},
    {"code",
     "Write a small stack machine in Python with push, add, multiply and print."},
    {"code", "Write a regular expression for dates such as 2024-05-17 and explain each "
             "part."},
    {"code", "Write a Makefile for a program of three C files with a test target."},
};

const struct loops_prompt *loops_prompts(int64_t *n)
{
    *n = (int64_t)countof(prompts);
    return prompts;
}
